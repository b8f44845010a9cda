package keeper_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/bellpull/bellpull/cmd/internal/keeper"
	"github.com/bellpull/bellpull/cmd/internal/natskv"
	"github.com/bellpull/bellpull/cmd/internal/natstest"
)

// Lost permits are made anew, by one keeper, and never more than the limit.
func TestLostPermits(t *testing.T) {
	f := newFleet(t, 3)
	for range 3 {
		f.keep(func(c *keeper.Config) { c.Mend = 100 * time.Millisecond })
	}
	f.tokens(3)
	js := must(jetstream.New(natstest.Conn(t, f.server)))
	consumer := must(js.Consumer(f.ctx(), "BELLPULL_PERMITS_desired", "permits"))
	lose := map[string]func(){
		"acknowledged": func() { must(consumer.Next()).DoubleAck(f.ctx()) },
		"terminated":   func() { must(consumer.Next()).Term() },
		"deleted": func() {
			stream := must(js.Stream(f.ctx(), "BELLPULL_PERMITS_desired"))
			info := must(stream.Info(f.ctx(), jetstream.WithSubjectFilter("bellpull.permits.desired.token.*")))
			for subject := range info.State.Subjects {
				if err := stream.Purge(f.ctx(), jetstream.WithPurgeSubject(subject)); err != nil {
					t.Error(err)
				}
				return
			}
		},
		"all deleted": func() {
			stream := must(js.Stream(f.ctx(), "BELLPULL_PERMITS_desired"))
			if err := stream.Purge(f.ctx(), jetstream.WithPurgeSubject("bellpull.permits.desired.token.*")); err != nil {
				t.Error(err)
			}
		},
		"consumer deleted": func() {
			if err := js.DeleteConsumer(f.ctx(), "BELLPULL_PERMITS_desired", "permits"); err != nil {
				t.Error(err)
			}
		},
	}
	for name, lost := range lose {
		t.Run(name, func(t *testing.T) {
			lost()
			f.tokens(3)
			// Nobody adds more afterwards.
			for range 10 {
				time.Sleep(100 * time.Millisecond)
				if count := must(f.admin.PermitCount(f.ctx())); count.Tokens != 3 {
					t.Errorf("%d permits, want 3", count.Tokens)
				}
			}
		})
	}
}

// A restart of NATS lets nobody in beyond the limit, and strands nobody.
func TestRestart(t *testing.T) {
	f := newFleet(t, 2)
	f.lease(20 * time.Second)
	f.keep()
	f.keep()
	f.tokens(2)
	var mu sync.Mutex
	var served []string
	var all sync.WaitGroup
	for i := range 12 {
		node := fmt.Sprintf("n%d.example.com", i)
		a := f.ask(node)
		all.Go(func() {
			permit := a.granted()
			f.hold(1)
			end := time.Now().Add(500 * time.Millisecond)
			for time.Now().Before(end) {
				if renewed, err := a.Renew(f.ctx(), permit); err == nil {
					permit = renewed
				}
				time.Sleep(100 * time.Millisecond)
			}
			f.hold(-1)
			_ = a.Release(f.ctx(), permit) // NATS may be away: it lapses
			mu.Lock()
			defer mu.Unlock()
			served = append(served, node)
		})
	}
	f.until("some are served", func() bool { mu.Lock(); defer mu.Unlock(); return len(served) >= 2 })
	f.server.Restart()
	all.Wait()
	slices.Sort(served)
	if got := len(slices.Compact(served)); got != 12 || f.most > 2 {
		t.Errorf("%d of 12 were served, %d at once, want at most 2", got, f.most)
	}
}

// A cluster that loses the server on which the permits' consumer lives: nobody is
// let in beyond the limit, and all are served.
func TestLeaderLost(t *testing.T) {
	if testing.Short() {
		t.Skip("a cluster takes a while: not in a short run")
	}
	servers := natstest.Cluster(t, 3)
	var urls []string
	for _, s := range servers {
		urls = append(urls, s.URL())
	}
	connect := func(node string) *natskv.Bucket {
		b := must(natskv.Connect(t.Context(), natskv.Config{Servers: urls, Node: node}))
		t.Cleanup(b.Close)
		return b
	}
	f := &fleet{t: t, admin: connect("")}
	must(f.admin.Init(f.ctx(), natskv.InitOptions{Replicas: 3}))
	f.limit(3)
	for range 2 {
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		k := keeper.New(keeper.Config{Bucket: connect(""), Mend: time.Second, Heartbeat: time.Second})
		go func() { done <- k.Run(ctx) }()
		t.Cleanup(func() { cancel(); <-done })
	}
	f.tokens(3)
	var all sync.WaitGroup
	served := make(chan string, 40)
	for i := range cap(served) {
		node := fmt.Sprintf("n%d.example.com", i)
		a := &asker{f: f, bucket: connect(node)}
		a.Permits = a.bucket.Permits()
		a.answers = a.Ask(t.Context())
		all.Go(func() {
			permit := a.granted()
			f.hold(1)
			for range 5 { // the run
				time.Sleep(50 * time.Millisecond)
				if renewed, err := a.Renew(f.ctx(), permit); err == nil {
					permit = renewed
				}
			}
			f.hold(-1)
			_ = a.Release(f.ctx(), permit) // one that is not answered lapses
			served <- node
		})
	}
	f.until("some are served", func() bool { return len(served) >= 5 })
	for _, s := range servers {
		if s.Embedded().JetStreamIsConsumerLeader("$G", "BELLPULL_PERMITS_desired", "permits") {
			s.Stop()
			break
		}
	}
	all.Wait()
	if got := len(served); got != cap(served) || f.most > 3 {
		t.Errorf("%d of %d were served, %d at once, want at most 3", got, cap(served), f.most)
	}
}
