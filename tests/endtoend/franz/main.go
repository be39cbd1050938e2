// What a Go program does with a broker through franz-go: topics, four compressions, acks 0, 1 and all, idempotence,
// transactions, groups with a rebalance and a restart, share groups, quotas, a rolling upgrade. Names begin with the environment's PREFIX. Called by test_clients_franz_go.py as `franz WHAT BOOTSTRAP [USER PASSWORD]`;
// prints one line of JSON, or says on stderr what went wrong and exits with 1.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"sort"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/sasl/plain"
)

const (
	records = 1000
	valueOf = "record %d of franz-go, long enough to be worth compressing, long enough to be worth compressing"
)

var prefix = os.Getenv("PREFIX")

var codecs = map[string]kgo.CompressionCodec{
	"none": kgo.NoCompression(), "gzip": kgo.GzipCompression(), "snappy": kgo.SnappyCompression(),
	"lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression(),
}

func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func client(more ...kgo.Opt) *kgo.Client {
	options := []kgo.Opt{kgo.SeedBrokers(strings.Split(os.Args[2], ",")...), kgo.ClientID("franz"), kgo.RetryTimeout(10 * time.Second)}
	if len(os.Args) > 4 {
		login := plain.Auth{User: os.Args[3], Pass: os.Args[4]}
		options = append(options, kgo.SASL(login.AsMechanism()))
	}
	made, err := kgo.NewClient(append(options, more...)...)
	must(err)
	return made
}

func makeTopic(ctx context.Context, name string, partitions int32) {
	admin := kadm.NewClient(client())
	defer admin.Close()
	made, err := admin.CreateTopic(ctx, partitions, 1, nil, name)
	must(err)
	must(made.Err)
}

func write(ctx context.Context, name string, count int, options ...kgo.Opt) {
	producer := client(append(options, kgo.DefaultProduceTopic(name))...)
	defer producer.Close()
	for i := range count {
		record := &kgo.Record{Key: fmt.Appendf(nil, "%d", i), Value: fmt.Appendf(nil, valueOf, i)}
		producer.Produce(ctx, record, func(_ *kgo.Record, err error) { must(err) })
	}
	must(producer.Flush(ctx))
}

// read polls until count records have come, each exactly once, and returns how many came from each partition.
func read(ctx context.Context, consumer *kgo.Client, count int) map[int32]int {
	from, seen := map[int32]int{}, map[string]bool{}
	for len(seen) < count {
		fetches := consumer.PollFetches(ctx)
		must(fetches.Err0())
		fetches.EachError(func(_ string, _ int32, err error) { must(err) })
		fetches.EachRecord(func(r *kgo.Record) {
			place := fmt.Sprintf("%d/%d", r.Partition, r.Offset)
			if seen[place] {
				must(fmt.Errorf("%s came twice", place))
			}
			seen[place] = true
			from[r.Partition]++
		})
	}
	return from
}

func compressions(ctx context.Context) any {
	topic := prefix + "franz"
	makeTopic(ctx, topic, 1)
	names := []string{}
	for name, codec := range codecs {
		write(ctx, topic, records, kgo.ProducerBatchCompression(codec))
		names = append(names, name)
	}
	sort.Strings(names)
	consumer := client(kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	defer consumer.Close()
	return map[string]any{"codecs": names, "read": read(ctx, consumer, records*len(codecs))[0]}
}

func acknowledgements(ctx context.Context) any {
	topic := prefix + "acks"
	makeTopic(ctx, topic, 1)
	for _, acks := range []kgo.Acks{kgo.NoAck(), kgo.LeaderAck(), kgo.AllISRAcks()} {
		write(ctx, topic, records, kgo.RequiredAcks(acks), kgo.DisableIdempotentWrite())
	}
	consumer := client(kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	defer consumer.Close()
	return map[string]any{"read": read(ctx, consumer, 3*records)[0]}
}

// groups has two members share a topic, then one of them go, and a third find the offsets that were committed.
func groups(ctx context.Context) any {
	topic, name := prefix+"shared", prefix+"franz-group"
	makeTopic(ctx, topic, 4)
	write(ctx, topic, records)
	member := func() *kgo.Client {
		return client(kgo.ConsumerGroup(name), kgo.ConsumeTopics(topic), kgo.DisableAutoCommit(),
			kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.Balancers(kgo.CooperativeStickyBalancer()))
	}
	first := member()
	all := read(ctx, first, records)
	must(first.CommitUncommittedOffsets(ctx))
	second := member()
	parts := func() (int, int) {
		admin := kadm.NewClient(first)
		described, err := admin.DescribeGroups(ctx, name)
		must(err)
		group := described[name]
		return len(group.Members), len(group.AssignedPartitions()[topic])
	}
	deadline := time.Now().Add(20 * time.Second)
	members, assigned := 0, 0
	for (members < 2 || assigned < 4) && time.Now().Before(deadline) {
		short, stop := context.WithTimeout(ctx, 100*time.Millisecond)
		first.PollFetches(short)
		second.PollFetches(short)
		stop()
		members, assigned = parts()
	}
	first.LeaveGroup()
	first.Close()
	second.Close()
	write(ctx, topic, 10)
	third := member()
	defer third.Close()
	rest := read(ctx, third, 10)
	count := 0
	for _, each := range rest {
		count += each
	}
	return map[string]any{"partitions": len(all), "members": members, "assigned": assigned, "rest": count}
}

// transactions commits one, aborts one and commits another, and reads what was committed and what there is.
func transactions(ctx context.Context) any {
	topic := prefix + "transactions"
	makeTopic(ctx, topic, 1)
	producer := client(kgo.TransactionalID(topic), kgo.DefaultProduceTopic(topic))
	defer producer.Close()
	for _, end := range []kgo.TransactionEndTry{kgo.TryCommit, kgo.TryAbort, kgo.TryCommit} {
		must(producer.BeginTransaction())
		for i := range records {
			record := &kgo.Record{Value: fmt.Appendf(nil, valueOf, i)}
			producer.Produce(ctx, record, func(_ *kgo.Record, err error) { must(err) })
		}
		must(producer.Flush(ctx))
		must(producer.EndTransaction(ctx, end))
	}
	found := map[string]any{}
	for name, level := range map[string]kgo.IsolationLevel{
		"committed": kgo.ReadCommitted(), "all": kgo.ReadUncommitted(),
	} {
		consumer := client(kgo.ConsumeTopics(topic), kgo.FetchIsolationLevel(level),
			kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
		found[name] = read(ctx, consumer, map[string]int{"committed": 2, "all": 3}[name]*records)[0]
		consumer.Close()
	}
	return found
}

func quotas(ctx context.Context) any {
	admin := kadm.NewClient(client())
	defer admin.Close()
	name := prefix + "franz-limited"
	entity := kadm.ClientQuotaEntity{{Type: "client-id", Name: &name}}
	set := kadm.AlterClientQuotaEntry{
		Entity: entity, Ops: []kadm.AlterClientQuotaOp{{Key: "producer_byte_rate", Value: 12345}},
	}
	altered, err := admin.AlterClientQuotas(ctx, []kadm.AlterClientQuotaEntry{set})
	must(err)
	for _, each := range altered {
		must(each.Err)
	}
	wanted := kadm.DescribeClientQuotaComponent{Type: "client-id", MatchName: &name, MatchType: 0}
	described, err := admin.DescribeClientQuotas(ctx, true, []kadm.DescribeClientQuotaComponent{wanted})
	for err == nil && len(described) == 0 { // another broker may learn of it later than the controller
		time.Sleep(50 * time.Millisecond)
		described, err = admin.DescribeClientQuotas(ctx, true, []kadm.DescribeClientQuotaComponent{wanted})
	}
	must(err)
	return map[string]any{"entries": len(described), "value": described[0].Values[0].Value}
}

// shares has two members of a share group accept each record once: one of seven is rejected, and one of ten released
// before. Records come in batches that are divided, as a member takes 50 at once; a lock is renewed.
func shares(ctx context.Context) any {
	topic, name := prefix+"jobs", prefix+"franz-shares"
	makeTopic(ctx, topic, 2)
	admin := client()
	defer admin.Close()
	earliest := "earliest"
	set := kmsg.NewPtrIncrementalAlterConfigsRequest()
	set.Resources = []kmsg.IncrementalAlterConfigsRequestResource{{
		ResourceType: kmsg.ConfigResourceTypeGroupConfig, ResourceName: name,
		Configs: []kmsg.IncrementalAlterConfigsRequestResourceConfig{{
			Name: "share.auto.offset.reset", Op: kmsg.IncrementalAlterConfigOpSet, Value: &earliest,
		}},
	}}
	answer, err := set.RequestWith(ctx, admin)
	must(err)
	must(kerr.ErrorForCode(answer.Resources[0].ErrorCode))
	write(ctx, topic, records)
	accepted, rejected, released, most := map[string]int{}, 0, 0, int32(0)
	members := []*kgo.Client{}
	for range 2 {
		members = append(members, client(kgo.ShareGroup(name), kgo.ConsumeTopics(topic),
			kgo.ShareMaxRecords(50), kgo.ShareMaxRecordsStrict()))
	}
	for len(accepted)+rejected < records && ctx.Err() == nil {
		for _, member := range members {
			short, stop := context.WithTimeout(ctx, 200*time.Millisecond)
			fetches := member.PollFetches(short)
			stop()
			if fetches.NumRecords() > 50 {
				must(fmt.Errorf("%d records came at once", fetches.NumRecords()))
			}
			fetches.EachRecord(func(r *kgo.Record) {
				number, err := strconv.Atoi(string(r.Key))
				must(err)
				most = max(most, r.DeliveryCount())
				switch {
				case number%7 == 0:
					rejected++
					r.Ack(kgo.AckReject)
				case number%10 == 0 && r.DeliveryCount() == 1:
					released++
					r.Ack(kgo.AckRelease)
				case number%10 == 1 && r.DeliveryCount() == 1:
					r.Ack(kgo.AckRenew)
					must(member.FlushAcks(ctx))
					accepted[string(r.Key)]++
					r.Ack(kgo.AckAccept)
				default:
					accepted[string(r.Key)]++
					r.Ack(kgo.AckAccept)
				}
			})
			must(member.FlushAcks(ctx))
		}
	}
	twice := 0
	for _, count := range accepted {
		twice += count - 1
	}
	for _, member := range members {
		member.Close()
	}
	return map[string]any{
		"accepted": len(accepted), "rejected": rejected, "released": released, "twice": twice, "deliveries": most,
	}
}

// roll produces numbers and reads them in a group until its input ends; then it reads the rest.
func roll(ctx context.Context) any {
	topic := prefix + "roll"
	makeTopic(ctx, topic, 3)
	ended := make(chan struct{})
	go func() {
		_, _ = io.ReadAll(os.Stdin)
		close(ended)
	}()
	producer := client(kgo.DefaultProduceTopic(topic), kgo.RecordPartitioner(kgo.RoundRobinPartitioner()))
	defer producer.Close()
	var lock sync.Mutex
	acknowledged, failed := 0, []string{}
	produced := make(chan struct{})
	go func() {
		defer close(produced)
		for number := 0; ; number++ {
			select {
			case <-ended:
				must(producer.Flush(ctx))
				return
			case <-time.After(7 * time.Millisecond):
			}
			record := &kgo.Record{Value: fmt.Appendf(nil, "%d", number)}
			producer.Produce(ctx, record, func(_ *kgo.Record, err error) {
				lock.Lock()
				defer lock.Unlock()
				if err != nil {
					failed = append(failed, err.Error())
				} else {
					acknowledged++
				}
			})
		}
	}()
	consumer := client(kgo.ConsumeTopics(topic), kgo.ConsumerGroup(prefix+"rollers"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	defer consumer.Close()
	read, errors := map[string]int{}, []string{}
	wanted := func() int {
		select {
		case <-produced:
			lock.Lock()
			defer lock.Unlock()
			return acknowledged
		default:
			return 1 << 30
		}
	}
	isReady := false
	for len(read) < wanted() {
		some, stop := context.WithTimeout(ctx, 200*time.Millisecond)
		fetches := consumer.PollFetches(some)
		stop()
		fetches.EachError(func(_ string, _ int32, err error) {
			if some.Err() == nil || err.Error() != some.Err().Error() {
				errors = append(errors, err.Error())
			}
		})
		fetches.EachRecord(func(r *kgo.Record) { read[string(r.Value)]++ })
		if !isReady && len(read) > 0 {
			isReady = true
			fmt.Println("ready")
		}
		must(ctx.Err())
	}
	twice := 0
	for _, times := range read {
		twice += times - 1
	}
	return map[string]any{"acknowledged": acknowledged, "failed": failed, "read": len(read), "twice": twice, "errors": errors}
}

// racked reads so many records of a topic as a group, and tells how long after its time the last of those with a key came
// at most. The environment has TOPIC, RECORDS and SOURCE, the address that it connects from.
func racked(ctx context.Context) any {
	wanted, err := strconv.Atoi(os.Getenv("RECORDS"))
	must(err)
	dialer := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(os.Getenv("SOURCE"))}}
	consumer := client(kgo.ConsumeTopics(os.Getenv("TOPIC")), kgo.ConsumerGroup(prefix+"racked"), kgo.Dialer(dialer.DialContext),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	defer consumer.Close()
	read, latest := 0, int64(0)
	for read < wanted {
		fetches := consumer.PollFetches(ctx)
		must(fetches.Err0())
		fetches.EachError(func(_ string, _ int32, err error) { must(err) })
		fetches.EachRecord(func(r *kgo.Record) {
			read++
			if r.Key != nil {
				latest = max(latest, time.Since(r.Timestamp).Milliseconds())
			}
		})
	}
	return map[string]any{"read": read, "latest_ms": latest}
}

func main() {
	ctx, stop := context.WithTimeout(context.Background(), 100*time.Second)
	defer stop()
	what := map[string]func(context.Context) any{
		"compressions": compressions, "acknowledgements": acknowledgements, "groups": groups, "quotas": quotas,
		"transactions": transactions, "shares": shares, "roll": roll, "racked": racked,
	}
	must(json.NewEncoder(os.Stdout).Encode(what[os.Args[1]](ctx)))
}
