// Sends a megabyte until the broker throttles this client, and prints for how long.
//
//	go mod init throttled && go get github.com/twmb/franz-go
//	go run throttled.go 127.0.0.1:9092 visitor
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// throttles gets throttle_time_ms of each answer that has one.
type throttles chan time.Duration

func (t throttles) OnBrokerThrottle(_ kgo.BrokerMetadata, interval time.Duration, _ bool) {
	select {
	case t <- interval:
	default:
	}
}

func main() {
	seen := make(throttles, 1)
	client, err := kgo.NewClient(
		kgo.SeedBrokers(os.Args[1]),
		kgo.ClientID(os.Args[2]),
		kgo.AllowAutoTopicCreation(),
		kgo.ProducerBatchCompression(kgo.NoCompression()), // what is sent is a megabyte of zeros
		kgo.WithHooks(seen),
	)
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	for sent := 0; sent < 100; sent++ {
		record := &kgo.Record{Topic: "greetings", Value: make([]byte, 10_000)}
		if err := client.ProduceSync(context.Background(), record).FirstErr(); err != nil {
			log.Fatal(err)
		}
		select {
		case interval := <-seen:
			fmt.Printf("throttled for %d ms\n", interval.Milliseconds())
			return
		default:
		}
	}
	log.Fatal("not throttled")
}
