// One kfake broker on one port, with its data on disk and without the profiling hooks of kfake's own command.
// Started by benchmarks/peers.py; ends at SIGTERM.
package main

import (
	"crypto/tls"
	"flag"
	"log"
	"os"
	"os/signal"
	"syscall"

	"github.com/twmb/franz-go/pkg/kfake"
)

func main() {
	port := flag.Int("port", 9092, "port on 127.0.0.1")
	dataDir := flag.String("data-dir", "", "directory of the topics; writes stay in the page cache")
	certificate := flag.String("certificate", "", "PEM file: every connection uses TLS")
	key := flag.String("key", "", "PEM file")
	flag.Parse()

	options := []kfake.Opt{kfake.NumBrokers(1), kfake.Ports(*port), kfake.DataDir(*dataDir)}
	if *certificate != "" {
		pair, err := tls.LoadX509KeyPair(*certificate, *key)
		if err != nil {
			log.Fatal(err)
		}
		options = append(options, kfake.TLS(&tls.Config{Certificates: []tls.Certificate{pair}}))
	}
	cluster, err := kfake.NewCluster(options...)
	if err != nil {
		log.Fatal(err)
	}
	defer cluster.Close()

	ended := make(chan os.Signal, 1)
	signal.Notify(ended, os.Interrupt, syscall.SIGTERM)
	<-ended
}
