// What the tests do with Sarama and kafka-go: one command each, whose result is a line of JSON.
//
//	go_clients sarama|kafka-go groups|throttle|compressions|transactions|racked WHERE
//
// WHERE is JSON: {bootstrap, prefix}, with {mechanism, user, password} a login, with {ca} TLS; prefix begins the names
// of topics and groups.
//
// groups: produces 1,000 records, reads them as a group, commits, and finds nothing left as the same group.
// throttle: produces thirty times 20 kB as greedy-CLIENT, which has a quota, and tells how long that took and how
// many bytes are read back.
// compressions: writes 1,000 records in each compression that the client has, and reads them.
// transactions (Sarama): commits one transaction and aborts another, and reads what was committed.
// racked (Sarama): reads so many records of a topic, of WHERE {topic, records}, as a group from the address {source}, and
// tells how long after its time the last of those with a key came at most.
package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/IBM/sarama"
	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/sasl"
	"github.com/segmentio/kafka-go/sasl/plain"
	kafkaGoScram "github.com/segmentio/kafka-go/sasl/scram"
	"github.com/xdg-go/scram"
)

const (
	records = 1_000
	value   = 20_000
	sends   = 30
	greedy  = "greedy-"
)

var where struct {
	Bootstrap, Prefix, Mechanism, User, Password, CA, Topic, Source string
	Records                                                         int
}

var brokers []string

var clients = map[string]map[string]func() any{
	"sarama": {
		"groups": saramaGroups, "throttle": saramaThrottle, "compressions": saramaCompressions,
		"transactions": saramaTransactions, "racked": saramaRacked,
	},
	"kafka-go": {"groups": kafkaGoGroups, "throttle": kafkaGoThrottle, "compressions": kafkaGoCompressions},
}

func main() {
	must(json.Unmarshal([]byte(os.Args[3]), &where))
	brokers = strings.Split(where.Bootstrap, ",")
	result, err := json.Marshal(clients[os.Args[1]][os.Args[2]]())
	must(err)
	fmt.Println(string(result))
}

// trusting is nil without TLS.
func trusting() *tls.Config {
	if where.CA == "" {
		return nil
	}
	authorities := x509.NewCertPool()
	authorities.AppendCertsFromPEM([]byte(where.CA))
	return &tls.Config{RootCAs: authorities}
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

type compressed struct {
	Codecs []string `json:"codecs"`
	Read   int      `json:"read"`
}

type committed struct {
	Committed int `json:"committed"`
	First     int `json:"first"`
}

// Sarama

func saramaConfig(clientID string) *sarama.Config {
	config := sarama.NewConfig()
	config.Version = sarama.MaxVersion
	config.ClientID = clientID
	config.Producer.Return.Successes = true
	config.Producer.RequiredAcks = sarama.WaitForAll
	config.Consumer.Offsets.Initial = sarama.OffsetOldest
	if where.Source != "" {
		config.Net.LocalAddr = &net.TCPAddr{IP: net.ParseIP(where.Source)}
	}
	config.Net.TLS.Config = trusting()
	config.Net.TLS.Enable = config.Net.TLS.Config != nil
	if where.Mechanism != "" {
		config.Net.SASL.Enable = true
		config.Net.SASL.Mechanism = sarama.SASLMechanism(where.Mechanism)
		config.Net.SASL.User, config.Net.SASL.Password = where.User, where.Password
		config.Net.SASL.SCRAMClientGeneratorFunc = func() sarama.SCRAMClient { return &conversation{} }
	}
	return config
}

// conversation is what Sarama asks of its user for SCRAM.
type conversation struct{ *scram.ClientConversation }

func (c *conversation) Begin(user, password, authorization string) error {
	hash := map[string]scram.HashGeneratorFcn{
		sarama.SASLTypeSCRAMSHA256: scram.SHA256, sarama.SASLTypeSCRAMSHA512: scram.SHA512,
	}[where.Mechanism]
	client, err := hash.NewClient(user, password, authorization)
	if err == nil {
		c.ClientConversation = client.NewConversation()
	}
	return err
}

func saramaGroups() any {
	topic, group := where.Prefix+"sarama", where.Prefix+"sarama-group"
	config := saramaConfig("sarama-test")
	config.Producer.Idempotent = true
	config.Net.MaxOpenRequests = 1
	config.Producer.Compression = sarama.CompressionSnappy
	admin := saramaCreate(topic, 3)
	producer, err := sarama.NewSyncProducer(brokers, config)
	must(err)
	must(producer.SendMessages(saramaMessages(topic, 0)))
	must(producer.Close())
	result := groups{Produced: records, Read: saramaRead(topic, group, records)}
	offsets, err := admin.ListConsumerGroupOffsets(group, map[string][]int32{topic: {0, 1, 2}})
	must(err)
	for _, block := range offsets.Blocks[topic] {
		result.Committed += int(block.Offset)
	}
	result.Again = saramaRead(topic, group, 1)
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
func saramaRead(topic, group string, wanted int) int {
	client, err := sarama.NewConsumerGroup(brokers, group, saramaConfig("sarama-test"))
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

func saramaThrottle() any {
	topic, config := where.Prefix+greedy+"sarama", saramaConfig(greedy+"sarama")
	must(saramaCreate(topic, 1).Close())
	producer, err := sarama.NewSyncProducer(brokers, config)
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
	for _, each := range saramaValues(topic, sends, saramaConfig("sarama-test")) {
		result.Read += len(each)
	}
	return result
}

// saramaValues returns the first values of partition 0.
func saramaValues(topic string, count int, config *sarama.Config) []string {
	consumer, err := sarama.NewConsumer(brokers, config)
	must(err)
	partition, err := consumer.ConsumePartition(topic, 0, sarama.OffsetOldest)
	must(err)
	var values []string
	for range count {
		values = append(values, string((<-partition.Messages()).Value))
	}
	must(partition.Close())
	must(consumer.Close())
	return values
}

func saramaCreate(topic string, partitions int32) sarama.ClusterAdmin {
	admin, err := sarama.NewClusterAdmin(brokers, saramaConfig("sarama-test"))
	must(err)
	must(admin.CreateTopic(topic, &sarama.TopicDetail{NumPartitions: partitions, ReplicationFactor: -1}, false))
	return admin
}

func saramaMessages(topic string, from int) []*sarama.ProducerMessage {
	messages := make([]*sarama.ProducerMessage, records)
	for at := range messages {
		text := sarama.StringEncoder(fmt.Sprint(from + at))
		messages[at] = &sarama.ProducerMessage{Topic: topic, Key: text, Value: text}
	}
	return messages
}

func saramaCompressions() any {
	topic := where.Prefix + "sarama-compressions"
	must(saramaCreate(topic, 1).Close())
	result := compressed{}
	for codec := sarama.CompressionNone; codec <= sarama.CompressionZSTD; codec++ {
		config := saramaConfig("sarama-test")
		config.Producer.Compression = codec
		producer, err := sarama.NewSyncProducer(brokers, config)
		must(err)
		must(producer.SendMessages(saramaMessages(topic, len(result.Codecs)*records)))
		must(producer.Close())
		result.Codecs = append(result.Codecs, codec.String())
	}
	values := saramaValues(topic, len(result.Codecs)*records, saramaConfig("sarama-test"))
	result.Read = different(values)
	return result
}

func saramaTransactions() any {
	topic, config := where.Prefix+"sarama-transactions", saramaConfig("sarama-test")
	must(saramaCreate(topic, 1).Close())
	config.Producer.Idempotent = true
	config.Net.MaxOpenRequests = 1
	config.Producer.Transaction.ID = topic
	producer, err := sarama.NewSyncProducer(brokers, config)
	must(err)
	must(producer.BeginTxn())
	must(producer.SendMessages(saramaMessages(topic, 0)))
	must(producer.AbortTxn())
	must(producer.BeginTxn())
	must(producer.SendMessages(saramaMessages(topic, records)))
	must(producer.CommitTxn())
	must(producer.Close())
	config = saramaConfig("sarama-test")
	config.Consumer.IsolationLevel = sarama.ReadCommitted
	values := saramaValues(topic, records, config)
	result := committed{Committed: different(values)}
	_, err = fmt.Sscan(values[0], &result.First)
	must(err)
	return result
}

type racked struct {
	Read   int   `json:"read"`
	Latest int64 `json:"latest_ms"`
}

type racing struct {
	result chan racked
	lock   sync.Mutex
	racked
}

func (*racing) Setup(sarama.ConsumerGroupSession) error   { return nil }
func (*racing) Cleanup(sarama.ConsumerGroupSession) error { return nil }

func (r *racing) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	for {
		select {
		case message, open := <-claim.Messages():
			if !open {
				return nil
			}
			r.lock.Lock()
			if message.Key != nil {
				r.Latest = max(r.Latest, time.Since(message.Timestamp).Milliseconds())
			}
			if r.Read++; r.Read == where.Records {
				r.result <- r.racked
			}
			r.lock.Unlock()
		case <-session.Context().Done():
			return nil
		}
	}
}

func saramaRacked() any {
	client, err := sarama.NewConsumerGroup(brokers, where.Prefix+"racked", saramaConfig("sarama-test"))
	must(err)
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Second)
	defer cancel()
	r := &racing{result: make(chan racked, 1)}
	go func() {
		for ctx.Err() == nil {
			if err := client.Consume(ctx, []string{where.Topic}, r); err != nil && ctx.Err() == nil {
				must(err)
			}
		}
	}()
	select {
	case found := <-r.result:
		return found
	case <-ctx.Done():
		must(fmt.Errorf("%d records in 100 s", r.Read))
		return nil
	}
}

func different(values []string) int {
	seen := map[string]bool{}
	for _, each := range values {
		seen[each] = true
	}
	return len(seen)
}

// kafka-go

func kafkaGoLogin() sasl.Mechanism {
	switch where.Mechanism {
	case "":
		return nil
	case "PLAIN":
		return plain.Mechanism{Username: where.User, Password: where.Password}
	}
	algorithm := map[string]kafkaGoScram.Algorithm{
		"SCRAM-SHA-256": kafkaGoScram.SHA256, "SCRAM-SHA-512": kafkaGoScram.SHA512,
	}[where.Mechanism]
	mechanism, err := kafkaGoScram.Mechanism(algorithm, where.User, where.Password)
	must(err)
	return mechanism
}

func kafkaGoTransport(clientID string) *kafka.Transport {
	return &kafka.Transport{ClientID: clientID, SASL: kafkaGoLogin(), TLS: trusting()}
}

func kafkaGoDialer() *kafka.Dialer {
	return &kafka.Dialer{Timeout: 10 * time.Second, SASLMechanism: kafkaGoLogin(), TLS: trusting()}
}

func kafkaGoReader(topic, group string) *kafka.Reader {
	return kafka.NewReader(kafka.ReaderConfig{
		Brokers: brokers, GroupID: group, Topic: topic, MaxWait: 200 * time.Millisecond, StartOffset: kafka.FirstOffset,
		Dialer: kafkaGoDialer(),
	})
}

func kafkaGoCreate(ctx context.Context, topic string, partitions int) *kafka.Client {
	// A transport does not tell why it could not connect.
	connection, err := kafkaGoDialer().DialContext(ctx, "tcp", brokers[0])
	must(err)
	must(connection.Close())
	client := &kafka.Client{Addr: kafka.TCP(brokers...), Transport: kafkaGoTransport("kafka-go-test")}
	created, err := client.CreateTopics(ctx, &kafka.CreateTopicsRequest{
		Topics: []kafka.TopicConfig{{Topic: topic, NumPartitions: partitions, ReplicationFactor: -1}},
	})
	must(err)
	must(created.Errors[topic])
	for _, broker := range brokers {
		kafkaGoFind(ctx, broker, topic)
	}
	return client
}

// A broker of a cluster may learn of a new topic after its controller has answered.
func kafkaGoFind(ctx context.Context, broker, topic string) {
	connection, err := kafkaGoDialer().DialContext(ctx, "tcp", broker)
	must(err)
	defer connection.Close()
	for _, err = connection.ReadPartitions(topic); err != nil; _, err = connection.ReadPartitions(topic) {
		if !errors.Is(err, kafka.UnknownTopicOrPartition) || ctx.Err() != nil {
			must(err)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

func kafkaGoMessages(from int) []kafka.Message {
	messages := make([]kafka.Message, records)
	for at := range messages {
		messages[at] = kafka.Message{Key: fmt.Append(nil, from+at), Value: fmt.Append(nil, from+at)}
	}
	return messages
}

func kafkaGoWrite(ctx context.Context, topic string, codec kafka.Compression, messages []kafka.Message) {
	writer := &kafka.Writer{
		Addr: kafka.TCP(brokers...), Topic: topic, RequiredAcks: kafka.RequireAll, Compression: codec,
		BatchTimeout: 10 * time.Millisecond, Transport: kafkaGoTransport("kafka-go-test"),
	}
	must(writer.WriteMessages(ctx, messages...))
	must(writer.Close())
}

func kafkaGoGroups() any {
	topic, group := where.Prefix+"kafka-go", where.Prefix+"kafka-go-group"
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Second)
	defer cancel()
	client := kafkaGoCreate(ctx, topic, 3)
	kafkaGoWrite(ctx, topic, kafka.Zstd, kafkaGoMessages(0))
	result := groups{Produced: records, Read: kafkaGoRead(ctx, topic, group, records)}
	offsets, err := client.OffsetFetch(ctx, &kafka.OffsetFetchRequest{
		GroupID: group, Topics: map[string][]int{topic: {0, 1, 2}},
	})
	must(err)
	for _, partition := range offsets.Topics[topic] {
		result.Committed += int(partition.CommittedOffset)
	}
	short, stop := context.WithTimeout(ctx, 5*time.Second)
	defer stop()
	result.Again = kafkaGoRead(short, topic, group, 1)
	return result
}

func kafkaGoRead(ctx context.Context, topic, group string, wanted int) int {
	reader := kafkaGoReader(topic, group)
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

func kafkaGoThrottle() any {
	topic := where.Prefix + greedy + "kafka-go"
	kafkaGoCreate(context.Background(), topic, 1)
	writer := &kafka.Writer{
		Addr: kafka.TCP(brokers...), Topic: topic, RequiredAcks: kafka.RequireAll,
		BatchTimeout: time.Millisecond, Transport: kafkaGoTransport(greedy + "kafka-go"),
	}
	begin := time.Now()
	for range sends {
		must(writer.WriteMessages(context.Background(), kafka.Message{Value: make([]byte, value)}))
	}
	must(writer.Close())
	result := throttled{Seconds: time.Since(begin).Seconds()}
	reader := kafkaGoReader(topic, "")
	for range sends {
		message, err := reader.ReadMessage(context.Background())
		must(err)
		result.Read += len(message.Value)
	}
	must(reader.Close())
	return result
}

func kafkaGoCompressions() any {
	topic := where.Prefix + "kafka-go-compressions"
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Second)
	defer cancel()
	kafkaGoCreate(ctx, topic, 1)
	result := compressed{}
	for codec, name := range []string{"none", "gzip", "snappy", "lz4", "zstd"} {
		kafkaGoWrite(ctx, topic, kafka.Compression(codec), kafkaGoMessages(codec*records))
		result.Codecs = append(result.Codecs, name)
	}
	reader := kafkaGoReader(topic, "")
	var values []string
	for range len(result.Codecs) * records {
		message, err := reader.ReadMessage(ctx)
		must(err)
		values = append(values, string(message.Value))
	}
	must(reader.Close())
	result.Read = different(values)
	return result
}
