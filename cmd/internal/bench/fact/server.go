package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/bellpull/bellpull/cmd/internal/natskv"
	"github.com/bellpull/bellpull/schemas"
)

const (
	others  = 10_000 // documents of other nodes
	entries = 10     // of each of the node's documents
)

// scopes are what the fact reads, most specific first.
func scopes() []schemas.Scope {
	return []schemas.Scope{"node/web1.example.com", "group/webservers-prod", "common"}
}

// serve is the bench's second process: a server with a full bucket. It prints
// its URL when all is there, and ends with its input.
func serve(store string) error {
	srv, err := server.NewServer(&server.Options{
		Host: "127.0.0.1", Port: server.RANDOM_PORT, JetStream: true, StoreDir: store, NoLog: true, NoSigs: true,
	})
	if err != nil {
		return fmt.Errorf("start nats-server: %w", err)
	}
	srv.Start()
	defer srv.WaitForShutdown()
	defer srv.Shutdown()
	if !srv.ReadyForConnections(20 * time.Second) {
		return errors.New("nats-server is not ready")
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	bucket, err := natskv.Dial(ctx, natskv.Config{Servers: []string{srv.ClientURL()}})
	if err != nil {
		return err
	}
	defer bucket.Close()
	if _, err := bucket.Init(ctx, natskv.InitOptions{}); err != nil {
		return err
	}
	if err := fill(ctx, bucket); err != nil {
		return err
	}
	fmt.Println(srv.ClientURL())
	_, err = io.Copy(io.Discard, os.Stdin)
	return err
}

// fill writes the node's documents, some before and some after all others.
func fill(ctx context.Context, bucket *natskv.Bucket) error {
	all := make(chan schemas.Scope)
	errs := make(chan error, 16)
	var workers sync.WaitGroup
	for range cap(errs) {
		workers.Go(func() {
			for scope := range all {
				if _, err := bucket.Put(ctx, scope, document(scope), 0); err != nil {
					errs <- err
					return
				}
			}
		})
	}
	send := func(scope schemas.Scope) error {
		select {
		case all <- scope:
			return nil
		case err := <-errs:
			return err
		}
	}
	var err error
	own := scopes()
	queue := []schemas.Scope{own[2]}
	for i := range others {
		queue = append(queue, schemas.Scope(fmt.Sprintf("node/n%05d.example.com", i)))
	}
	for _, scope := range append(queue, own[0], own[1]) {
		if err = send(scope); err != nil {
			break
		}
	}
	close(all)
	workers.Wait()
	close(errs)
	return errors.Join(err, <-errs)
}

func document(scope schemas.Scope) []byte {
	var parts []string
	for i := range entries {
		parts = append(parts, fmt.Sprintf(
			`"profile::%c::setting%d": {"value": {"port": %d, "protocol": "tcp", "action": "allow"}, "kind": "firewall_rule", `+
				`"event": "4f0e-%d", "source": "shop/deploy", "time": "2026-12-01T10:00:00Z"}`,
			scope[0], i, 8000+i, i))
	}
	return []byte(`{"bellpull": 1, "entries": {` + strings.Join(parts, ", ") + `}}`)
}
