// What the tests do with Sarama and kafka-go: one command each, whose result is a line of JSON.
//
//	go_clients sarama|kafka-go groups|throttle BOOTSTRAP
//
// PREFIX in the environment begins the names of topics and groups.
//
// groups: produces 1,000 records, reads them as a group, commits, and finds nothing left as the same group.
// throttle: produces thirty times 20 kB as greedy-CLIENT, which has a quota, and tells how long that took and how
// many bytes are read back.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/IBM/sarama"
	"github.com/segmentio/kafka-go"
)

const (
	records = 1_000
	value   = 20_000
	sends   = 30
	greedy  = "greedy-"
)

var prefix = os.Getenv("PREFIX")

var clients = map[string]map[string]func(string) any{
	"sarama":   {"groups": saramaGroups, "throttle": saramaThrottle},
	"kafka-go": {"groups": kafkaGoGroups, "throttle": kafkaGoThrottle},
}

func main() {
	result, err := json.Marshal(clients[os.Args[1]][os.Args[2]](os.Args[3]))
	must(err)
	fmt.Println(string(result))
}

func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

type groups struct {
	Produced  int `json:"produced"`
	Read      int `json:"read"`
	Committed int `json:"committed"`
	Again     int `json:"again"`
}

type throttled struct {
	Seconds float64 `json:"seconds"`
	Read    int     `json:"read"`
}

// Sarama

func saramaConfig(clientID string) *sarama.Config {
	config := sarama.NewConfig()
	config.Version = sarama.MaxVersion
	config.ClientID = clientID
	config.Producer.Return.Successes = true
	config.Producer.RequiredAcks = sarama.WaitForAll
	config.Consumer.Offsets.Initial = sarama.OffsetOldest
	return config
}

func saramaGroups(bootstrap string) any {
	topic, group := prefix+"sarama", prefix+"sarama-group"
	config := saramaConfig("sarama-test")
	config.Producer.Idempotent = true
	config.Net.MaxOpenRequests = 1
	config.Producer.Compression = sarama.CompressionSnappy
	admin, err := sarama.NewClusterAdmin([]string{bootstrap}, config)
	must(err)
	must(admin.CreateTopic(topic, &sarama.TopicDetail{NumPartitions: 3, ReplicationFactor: -1}, false))
	producer, err := sarama.NewSyncProducer([]string{bootstrap}, config)
	must(err)
	messages := make([]*sarama.ProducerMessage, records)
	for at := range messages {
		key := sarama.StringEncoder(fmt.Sprint(at))
		messages[at] = &sarama.ProducerMessage{Topic: topic, Key: key, Value: key}
	}
	must(producer.SendMessages(messages))
	must(producer.Close())
	result := groups{Produced: records, Read: saramaRead(bootstrap, topic, group, records)}
	offsets, err := admin.ListConsumerGroupOffsets(group, map[string][]int32{topic: {0, 1, 2}})
	must(err)
	for _, block := range offsets.Blocks[topic] {
		result.Committed += int(block.Offset)
	}
	result.Again = saramaRead(bootstrap, topic, group, 1)
	must(admin.Close())
	return result
}

type reader struct {
	wanted int
	seen   chan struct{}
	done   context.CancelFunc
}

func (*reader) Setup(sarama.ConsumerGroupSession) error   { return nil }
func (*reader) Cleanup(sarama.ConsumerGroupSession) error { return nil }

func (r *reader) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	for {
		select {
		case message, open := <-claim.Messages():
			if !open {
				return nil
			}
			session.MarkMessage(message, "")
			r.seen <- struct{}{}
			if len(r.seen) >= r.wanted {
				session.Commit()
				r.done()
			}
		case <-session.Context().Done():
			return nil
		}
	}
}

// saramaRead reads until it has `wanted` records, or for five seconds without one, and returns how many it read.
func saramaRead(bootstrap, topic, group string, wanted int) int {
	client, err := sarama.NewConsumerGroup([]string{bootstrap}, group, saramaConfig("sarama-test"))
	must(err)
	limit := 30 * time.Second
	if wanted < records {
		limit = 5 * time.Second
	}
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	r := &reader{wanted, make(chan struct{}, 2*records), cancel}
	for ctx.Err() == nil {
		if err := client.Consume(ctx, []string{topic}, r); err != nil && ctx.Err() == nil {
			must(err)
		}
	}
	must(client.Close())
	return len(r.seen)
}

func saramaThrottle(bootstrap string) any {
	topic, config := prefix+"greedy-sarama", saramaConfig(greedy+"sarama")
	producer, err := sarama.NewSyncProducer([]string{bootstrap}, config)
	must(err)
	begin := time.Now()
	for range sends {
		_, _, err := producer.SendMessage(&sarama.ProducerMessage{
			Topic: topic, Value: sarama.ByteEncoder(make([]byte, value)),
		})
		must(err)
	}
	must(producer.Close())
	result := throttled{Seconds: time.Since(begin).Seconds()}
	consumer, err := sarama.NewConsumer([]string{bootstrap}, saramaConfig("sarama-test"))
	must(err)
	partition, err := consumer.ConsumePartition(topic, 0, sarama.OffsetOldest)
	must(err)
	for range sends {
		result.Read += len((<-partition.Messages()).Value)
	}
	must(partition.Close())
	must(consumer.Close())
	return result
}

// kafka-go

func kafkaGoGroups(bootstrap string) any {
	topic, group := prefix+"kafka-go", prefix+"kafka-go-group"
	ctx, cancel := context.WithTimeout(context.Background(), 40*time.Second)
	defer cancel()
	client := &kafka.Client{Addr: kafka.TCP(bootstrap)}
	_, err := client.CreateTopics(ctx, &kafka.CreateTopicsRequest{
		Topics: []kafka.TopicConfig{{Topic: topic, NumPartitions: 3, ReplicationFactor: -1}},
	})
	must(err)
	writer := &kafka.Writer{
		Addr: kafka.TCP(bootstrap), Topic: topic, RequiredAcks: kafka.RequireAll, Compression: kafka.Zstd,
		BatchTimeout: 10 * time.Millisecond,
	}
	messages := make([]kafka.Message, records)
	for at := range messages {
		messages[at] = kafka.Message{Key: fmt.Append(nil, at), Value: fmt.Append(nil, at)}
	}
	must(writer.WriteMessages(ctx, messages...))
	must(writer.Close())
	result := groups{Produced: records, Read: kafkaGoRead(ctx, bootstrap, topic, group, records)}
	offsets, err := client.OffsetFetch(ctx, &kafka.OffsetFetchRequest{
		GroupID: group, Topics: map[string][]int{topic: {0, 1, 2}},
	})
	must(err)
	for _, partition := range offsets.Topics[topic] {
		result.Committed += int(partition.CommittedOffset)
	}
	short, stop := context.WithTimeout(ctx, 5*time.Second)
	defer stop()
	result.Again = kafkaGoRead(short, bootstrap, topic, group, 1)
	return result
}

func kafkaGoRead(ctx context.Context, bootstrap, topic, group string, wanted int) int {
	reader := kafka.NewReader(kafka.ReaderConfig{
		Brokers: []string{bootstrap}, GroupID: group, Topic: topic, MaxWait: 200 * time.Millisecond,
		StartOffset: kafka.FirstOffset,
	})
	read := 0
	for read < wanted {
		message, err := reader.FetchMessage(ctx)
		if errors.Is(err, context.DeadlineExceeded) {
			break
		}
		must(err)
		read++
		must(reader.CommitMessages(ctx, message))
	}
	must(reader.Close())
	return read
}

func kafkaGoThrottle(bootstrap string) any {
	topic := prefix + "greedy-kafka-go"
	writer := &kafka.Writer{
		Addr: kafka.TCP(bootstrap), Topic: topic, RequiredAcks: kafka.RequireAll,
		BatchTimeout: time.Millisecond, Transport: &kafka.Transport{ClientID: greedy + "kafka-go"}, AllowAutoTopicCreation: true,
	}
	begin := time.Now()
	for range sends {
		must(writer.WriteMessages(context.Background(), kafka.Message{Value: make([]byte, value)}))
	}
	must(writer.Close())
	result := throttled{Seconds: time.Since(begin).Seconds()}
	reader := kafka.NewReader(kafka.ReaderConfig{
		Brokers: []string{bootstrap}, Topic: topic, MaxWait: 200 * time.Millisecond,
	})
	for range sends {
		message, err := reader.ReadMessage(context.Background())
		must(err)
		result.Read += len(message.Value)
	}
	must(reader.Close())
	return result
}
