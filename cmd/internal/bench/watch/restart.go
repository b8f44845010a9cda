package main

import (
	"context"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/bellpull/bellpull/cmd/internal/bench/bar"
)

// restart kills the server under all nodes and changes something as soon as it is
// back: when is the last node current, and does every node run exactly once?
func (b *bench) restart(ctx context.Context) error {
	ours, err := b.restartBellpull(ctx)
	if err != nil {
		return err
	}
	theirs, whole, err := b.restartWatches(ctx)
	if err != nil {
		return err
	}
	mark := ""
	if !whole {
		mark = " (not all were: the time is a lower bound)"
	}
	fmt.Printf("all of %d current after the server was back: bellpull %.1f s, a kv.Watch per node %.1f s%s\n", b.nodes, ours.Seconds(), theirs.Seconds(), mark)
	bar.Print("server restart to all nodes current by a kv.Watch per node", ours.Seconds()/theirs.Seconds(), 0.25, "")
	return nil
}

func (b *bench) restartBellpull(ctx context.Context) (time.Duration, error) {
	server, err := b.startServer("restart")
	if err != nil {
		return 0, err
	}
	defer func() { server.kill() }()
	admin, err := server.bucket(ctx, b.nodes, others)
	if err != nil {
		return 0, err
	}
	defer admin.Close()
	f := b.newFleet(server, time.Millisecond)
	defer f.end()
	if err := f.gather(ctx, b.nodes, false); err != nil {
		return 0, err
	}
	server.kill()
	if err := server.launch(b); err != nil {
		return 0, err
	}
	begin := time.Now()
	revision, err := change(ctx, admin, "common", 1)
	if err != nil {
		return 0, err
	}
	for _, n := range f.nodes {
		for !n.current("common", revision) {
			if time.Since(begin) > b.cap {
				b.check(false, "change lost: a node is not current %v after the restart", b.cap)
				return b.cap, nil
			}
			time.Sleep(5 * time.Millisecond)
		}
	}
	took := time.Since(begin)
	b.settle(f, b.nodes)
	none, once, more := f.runs()
	fmt.Printf("bellpull: %d nodes ran once, %d not at all, %d more than once\n", once, none, more)
	b.check(none == 0, "change lost in the restart: %d nodes did not run", none)
	b.check(more == 0, "spurious runs after the restart: %d nodes ran more than once", more)
	return took, nil
}

// settle waits until there were n runs, and for five seconds no further one.
func (b *bench) settle(f *fleet, n int) {
	for range n {
		select {
		case <-f.ended:
		case <-time.After(b.cap):
			return
		}
	}
	time.Sleep(5 * time.Second)
}

func (b *bench) restartWatches(ctx context.Context) (took time.Duration, whole bool, err error) {
	server, err := b.startServer("restart-watch")
	if err != nil {
		return 0, false, err
	}
	defer func() { server.kill() }()
	admin, err := server.bucket(ctx, b.nodes, others)
	if err != nil {
		return 0, false, err
	}
	defer admin.Close()
	c := &crowd{name: "kv.Watch per node", server: server, told: make(chan struct{}, 4*b.nodes)}
	current := make(chan int, 4*b.nodes)
	err = all(b.nodes, func(i int) error {
		return joinWatch(ctx, c, i, func(entry jetstream.KeyValueEntry) {
			if entry.Key() == "common" {
				current <- i
			}
		})
	})
	if err != nil {
		return 0, false, err
	}
	defer func() {
		for _, f := range c.close {
			go f()
		}
	}()
	server.kill()
	if err := server.launch(b); err != nil {
		return 0, false, err
	}
	begin := time.Now()
	if _, err := change(ctx, admin, "common", 1); err != nil {
		return 0, false, err
	}
	seen := map[int]bool{}
	timeout := time.After(b.cap)
	for len(seen) < b.nodes {
		select {
		case i := <-current:
			seen[i] = true
		case <-timeout:
			fmt.Printf("kv.Watch per node: %d of %d current after %v\n", len(seen), b.nodes, b.cap)
			return b.cap, false, nil
		}
	}
	return time.Since(begin), true, nil
}
