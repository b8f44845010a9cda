// Kvget reads the fact's documents as a program would that uses nats.go's
// KeyValue API and does nothing else.
package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

func main() {
	if err := run(os.Args[1], os.Args[2:]); err != nil {
		fmt.Fprintln(os.Stderr, "kvget:", err)
		os.Exit(1)
	}
}

func run(url string, keys []string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 1500*time.Millisecond)
	defer cancel()
	nc, err := nats.Connect(url, nats.NoReconnect())
	if err != nil {
		return err
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		return err
	}
	kv, err := js.KeyValue(ctx, "desired")
	if err != nil {
		return err
	}
	for _, key := range keys {
		entry, err := kv.Get(ctx, key)
		if err != nil {
			return fmt.Errorf("get %s: %w", key, err)
		}
		os.Stdout.Write(entry.Value())
	}
	return nil
}
