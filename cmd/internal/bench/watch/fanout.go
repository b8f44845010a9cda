package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/bellpull/bellpull/cmd/internal/bench/bar"
	"github.com/bellpull/bellpull/cmd/internal/natskv"
	"github.com/bellpull/bellpull/schemas"
)

// crowd is n connected clients of one kind, each told of changes in its own way.
type crowd struct {
	name   string
	server *natsServer
	bucket *natskv.Bucket
	told   chan struct{} // gets a value from each client for each change
	common uint64        // revision of the scope that is changed
	close  []func()
	mu     sync.Mutex

	connect time.Duration   // server CPU that connecting took, per client
	memory  float64         // KiB of the server's memory, per client
	slowest []time.Duration // per change: until the last client was told
}

func (c *crowd) ends(f func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.close = append(c.close, f)
}

func (c *crowd) end() {
	var all sync.WaitGroup
	for _, f := range c.close {
		all.Go(f)
	}
	all.Wait()
	if c.bucket != nil {
		c.bucket.Close()
	}
	c.server.kill()
}

// gather starts a server with a full bucket and lets n clients connect.
func (b *bench) gather(ctx context.Context, name string, join func(c *crowd, i int) error) (*crowd, error) {
	server, err := b.startServer(name)
	if err != nil {
		return nil, err
	}
	c := &crowd{name: name, server: server, told: make(chan struct{}, 4*b.nodes)}
	if c.bucket, err = server.bucket(ctx, b.nodes, others); err != nil {
		return nil, err
	}
	if c.common, err = change(ctx, c.bucket, "common", 1001); err != nil {
		return nil, err
	}
	small, err := c.sizes()
	if err != nil {
		return nil, err
	}
	before, err := bar.CPU(server.pid())
	if err != nil {
		return nil, err
	}
	begin := time.Now()
	if err := all(b.nodes, func(i int) error { return join(c, i) }); err != nil {
		return nil, err
	}
	took := time.Since(begin)
	time.Sleep(5 * time.Second) // what a connection does a moment later
	after, err := bar.CPU(server.pid())
	if err != nil {
		return nil, err
	}
	large, err := c.sizes()
	if err != nil {
		return nil, err
	}
	n := float64(b.nodes)
	c.connect, c.memory = (after-before)/time.Duration(b.nodes), float64(large.live-small.live)/n
	fmt.Printf("%-22s %d connected in %5.1f s; server, each: CPU %6.0f µs, memory %5.1f KiB, resident %5.1f KiB\n", name, b.nodes, took.Seconds(),
		float64(c.connect.Nanoseconds())/1000, c.memory, float64(large.resident-small.resident)/n)
	return c, nil
}

// sizes are the server's, in KiB.
type sizes struct{ resident, live int }

func (c *crowd) sizes() (s sizes, err error) {
	if s.resident, err = bar.Resident(c.server.pid()); err == nil {
		s.live, err = c.server.live()
	}
	return s, err
}

// put writes the next value of the scope that all share.
func (c *crowd) put(ctx context.Context, value int) (err error) {
	c.common, err = c.bucket.Put(ctx, "common", document(value), c.common)
	return err
}

// round makes one change, and waits until every client was told.
func (c *crowd) round(n int, announce func() error) error {
	for len(c.told) > 0 {
		<-c.told
	}
	begin := time.Now()
	if err := announce(); err != nil {
		return err
	}
	timeout := time.After(time.Minute)
	for range n {
		select {
		case <-c.told:
		case <-timeout:
			return fmt.Errorf("%s: not all of %d were told within a minute", c.name, n)
		}
	}
	c.slowest = append(c.slowest, time.Since(begin))
	return nil
}

// fanout compares how fast the last of all nodes hears of a change, and what
// being told costs the server.
func (b *bench) fanout(ctx context.Context) error {
	ours, err := b.gather(ctx, "bellpull", func(c *crowd, i int) error { return b.joinChanges(ctx, c, i) })
	if err != nil {
		return err
	}
	defer ours.end()
	bare, err := b.gather(ctx, "bare NATS", joinBare)
	if err != nil {
		return err
	}
	defer bare.end()
	watch, err := b.gather(ctx, "kv.Watch per node", func(c *crowd, i int) error {
		return joinWatch(ctx, c, i, func(jetstream.KeyValueEntry) { c.told <- struct{}{} })
	})
	if err != nil {
		return err
	}
	defer watch.end()
	publisher, err := nats.Connect(bare.server.url())
	if err != nil {
		return err
	}
	defer publisher.Close()
	crowds := []struct {
		*crowd
		announce func(value int) error
	}{
		{ours, func(value int) error { return ours.put(ctx, value) }},
		{bare, func(int) error {
			m := nats.NewMsg("bellpull.changed.desired.common")
			for _, name := range []string{"Nats-Stream", "Nats-Subject", "Nats-Sequence", "Nats-Last-Sequence", "Nats-Msg-Size", "Nats-Time-Stamp"} {
				m.Header.Set(name, "the length of a value")
			}
			if err := publisher.PublishMsg(m); err != nil {
				return err
			}
			return publisher.Flush()
		}},
		{watch, func(value int) error { return watch.put(ctx, value) }},
	}
	for round := range b.rounds + 1 {
		for i := range crowds {
			c := crowds[(i+round)%len(crowds)]
			if err := c.round(b.nodes, func() error { return c.announce(round + 1) }); err != nil {
				return err
			}
		}
		if round == 0 { // the first warms up
			for _, c := range crowds {
				c.slowest = nil
			}
		}
	}
	for _, c := range crowds {
		fmt.Printf("%-22s last of %d told after: p50 %s, p99 %s, n=%d\n", c.name, b.nodes, bar.Ms(bar.Quantile(c.slowest, 0.5)), bar.Ms(bar.Quantile(c.slowest, 0.99)), len(c.slowest))
	}
	p99 := func(c *crowd) float64 { return float64(bar.Quantile(c.slowest, 0.99)) }
	bar.Print("put to last node told, p99, by bare NATS fan-out", p99(ours)/p99(bare), 1.3, "")
	bar.Print("put to last node told, p99, by a kv.Watch per node", p99(ours)/p99(watch), 0.6, "")
	bar.Print("server memory per node by a kv.Watch per node", ours.memory/watch.memory, 0.5, "")
	bar.Print("server CPU to connect a node by a kv.Watch per node", float64(ours.connect)/float64(watch.connect), 0.25, "")
	return nil
}

// joinChanges is a node of bellpull: connected, subscribed, and current.
func (b *bench) joinChanges(ctx context.Context, c *crowd, i int) error {
	bucket, err := natskv.Connect(ctx, natskv.Config{Servers: []string{c.server.url()}, Node: certname(i)})
	if err != nil {
		return err
	}
	c.ends(bucket.Close)
	notices, err := bucket.Changes(ctx, scopesOf(i))
	if err != nil {
		return err
	}
	<-notices // to read
	if _, err := bucket.ReadNode(ctx, scopesOf(i)); err != nil {
		return err
	}
	go func() {
		for notice := range notices {
			if notice.Resync {
				_, _ = bucket.ReadNode(ctx, scopesOf(i))
			} else {
				c.told <- struct{}{}
			}
		}
	}()
	return nil
}

// joinBare is a plain subscriber.
func joinBare(c *crowd, _ int) error {
	nc, err := nats.Connect(c.server.url(), nats.MaxReconnects(-1))
	if err != nil {
		return err
	}
	c.ends(nc.Close)
	if _, err := nc.Subscribe("bellpull.changed.desired.common", func(*nats.Msg) { c.told <- struct{}{} }); err != nil {
		return err
	}
	return nc.Flush()
}

// joinWatch is a node as others make it: one watch of the bucket for its keys. each
// gets what comes after the values that stood when it began.
func joinWatch(ctx context.Context, c *crowd, i int, each func(jetstream.KeyValueEntry)) error {
	nc, err := nats.Connect(c.server.url(), nats.MaxReconnects(-1))
	if err != nil {
		return err
	}
	c.ends(nc.Close)
	js, err := jetstream.New(nc)
	if err != nil {
		return err
	}
	kv, err := js.KeyValue(ctx, "desired")
	if err != nil {
		return err
	}
	watcher, err := kv.WatchFiltered(ctx, keys(scopesOf(i)))
	if err != nil {
		return err
	}
	initial := make(chan struct{})
	go func() {
		current := false
		for entry := range watcher.Updates() {
			switch {
			case entry == nil && !current:
				current = true
				close(initial)
			case entry != nil && current:
				each(entry)
			}
		}
	}()
	<-initial
	return nil
}

func keys(scopes []schemas.Scope) []string {
	var out []string
	for _, scope := range scopes {
		out = append(out, scope.Key())
	}
	return out
}
