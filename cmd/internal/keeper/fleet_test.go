package keeper_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/bellpull/bellpull/cmd/internal/keeper"
	"github.com/bellpull/bellpull/cmd/internal/natskv"
	"github.com/bellpull/bellpull/cmd/internal/natstest"
	"github.com/bellpull/bellpull/schemas"
)

const patience = 120 * time.Second // for what takes a moment on a quiet machine

// fleet is a server with a limit, keepers, and nodes that ask for permits.
type fleet struct {
	t      testing.TB
	server *natstest.Server
	admin  *natskv.Bucket

	mu   sync.Mutex
	most int // permits held at once, at most
	held int
}

func newFleet(t testing.TB, limit int) *fleet {
	t.Helper()
	f := &fleet{t: t, server: natstest.Start(t)}
	natstest.Bucket(t, f.server)
	f.admin = f.connect("", f.server.URL())
	f.limit(limit)
	return f
}

func (f *fleet) connect(node, url string) *natskv.Bucket {
	f.t.Helper()
	b, err := natskv.Connect(f.t.Context(), natskv.Config{Servers: []string{url}, Node: node})
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(b.Close)
	return b
}

func (f *fleet) limit(n int) {
	f.t.Helper()
	if err := f.admin.SetLimit(f.ctx(), schemas.Limit{Known: true, Max: n}); err != nil {
		f.t.Fatal(err)
	}
}

func (f *fleet) ctx() context.Context {
	ctx, cancel := context.WithTimeout(f.t.Context(), patience)
	f.t.Cleanup(cancel)
	return ctx
}

// lease makes the lease another than a minute.
func (f *fleet) lease(d time.Duration) {
	f.t.Helper()
	js := must(jetstream.New(natstest.Conn(f.t, f.server)))
	consumer := must(js.Consumer(f.ctx(), "BELLPULL_PERMITS_desired", "permits"))
	cfg := consumer.CachedInfo().Config
	cfg.AckWait = d
	must(js.UpdateConsumer(f.ctx(), "BELLPULL_PERMITS_desired", cfg))
}

// keep starts a keeper and waits until it serves; stop ends it.
func (f *fleet) keep(change ...func(*keeper.Config)) (stop func()) {
	f.t.Helper()
	b := f.connect("", f.server.URL())
	cfg := keeper.Config{Bucket: b, Mend: time.Second}
	for _, c := range change {
		c(&cfg)
	}
	ctx, cancel := context.WithCancel(f.t.Context())
	done := make(chan error, 1)
	go func() { done <- keeper.New(cfg).Run(ctx) }()
	ended := false
	stop = func() {
		if ended {
			return
		}
		ended = true
		cancel()
		if err := <-done; err != nil {
			f.t.Error(err)
		}
		b.Close()
	}
	f.t.Cleanup(stop)
	f.until("a keeper", func() bool {
		p := f.connect("probe.example.com", f.server.URL())
		defer p.Close()
		_, err := p.Permits().Renew(f.ctx(), schemas.Permit{Handle: "x", Until: time.Now().Add(time.Minute)})
		return err != nil && strings.Contains(err.Error(), "none of this node's")
	})
	return stop
}

func (f *fleet) until(what string, check func() bool) {
	f.t.Helper()
	deadline := time.Now().Add(patience)
	for !check() {
		if time.Now().After(deadline) {
			f.t.Fatalf("%s: not within %v", what, patience)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// tokens waits until there are so many permits.
func (f *fleet) tokens(want int) {
	f.t.Helper()
	f.until(fmt.Sprintf("%d permits", want), func() bool {
		count, err := f.admin.PermitCount(f.ctx())
		return err == nil && count.Tokens == want
	})
}

type asker struct {
	*natskv.Permits
	f       *fleet
	bucket  *natskv.Bucket
	answers <-chan schemas.PermitAnswer
	leave   context.CancelFunc
}

// ask lets a node stand in line, and waits until it does.
func (f *fleet) ask(node string) *asker {
	f.t.Helper()
	a := &asker{f: f, bucket: f.connect(node, f.server.URL())}
	a.Permits = a.bucket.Permits()
	ctx, cancel := context.WithCancel(f.t.Context())
	a.leave = cancel
	a.answers = a.Ask(ctx)
	return a
}

// next is the next answer, if there is one within d.
func (a *asker) next(d time.Duration) (schemas.PermitAnswer, bool) {
	select {
	case answer, open := <-a.answers:
		return answer, open
	case <-time.After(d):
		return schemas.PermitAnswer{}, false
	}
}

func (a *asker) waiting() *asker {
	a.f.t.Helper()
	for {
		answer, ok := a.next(patience)
		switch {
		case ok && answer.Waiting:
			return a
		case !ok || answer.Err == nil:
			a.f.t.Fatalf("answer %+v, want to be in line", answer)
		}
	}
}

func (a *asker) granted() schemas.Permit {
	a.f.t.Helper()
	deadline := time.Now().Add(patience)
	for time.Now().Before(deadline) {
		answer, open := a.next(time.Until(deadline))
		if !open {
			break
		}
		if answer.Permit.Handle != "" {
			return answer.Permit
		}
	}
	a.f.t.Fatal("no permit was granted")
	return schemas.Permit{}
}

// notGranted checks that no permit comes within a moment.
func (a *asker) notGranted() {
	a.f.t.Helper()
	for deadline := time.Now().Add(300 * time.Millisecond); time.Now().Before(deadline); {
		if answer, ok := a.next(time.Until(deadline)); ok && answer.Err == nil && !answer.Waiting {
			a.f.t.Errorf("a permit was granted: %+v", answer)
		}
	}
}

func (a *asker) release(p schemas.Permit) {
	a.f.t.Helper()
	if err := a.Release(a.f.ctx(), p); err != nil {
		a.f.t.Error(err)
	}
}

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

func (f *fleet) hold(n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.held += n
	f.most = max(f.most, f.held)
}
