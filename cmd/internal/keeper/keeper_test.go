package keeper_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
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

// Who asks first is served first, over all keepers.
func TestFirstComeFirstServed(t *testing.T) {
	f := newFleet(t, 1)
	f.keep()
	f.keep()
	f.tokens(1)
	first := f.ask("first.example.com")
	permit := first.granted()
	var line []*asker
	for i := range 10 {
		line = append(line, f.ask(fmt.Sprintf("n%d.example.com", i)).waiting())
	}
	first.release(permit)
	for i, a := range line {
		got := a.granted()
		for _, later := range line[i+1:] {
			if answer, ok := later.next(0); ok && !answer.Waiting {
				t.Errorf("%+v before its turn", answer)
			}
		}
		a.release(got)
	}
}

// The limit holds with many nodes and two keepers, and all are served.
func TestLimit(t *testing.T) {
	f := newFleet(t, 5)
	f.keep()
	f.keep()
	f.tokens(5)
	var all sync.WaitGroup
	for i := range 60 {
		a := f.ask(fmt.Sprintf("n%d.example.com", i))
		all.Go(func() {
			permit := a.granted()
			f.hold(1)
			time.Sleep(30 * time.Millisecond) // the run
			f.hold(-1)
			a.release(permit)
		})
	}
	all.Wait()
	if f.most > 5 || f.most < 2 {
		t.Errorf("%d permits were held at once, want up to 5", f.most)
	}
}

func (f *fleet) hold(n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.held += n
	f.most = max(f.most, f.held)
}

// Any keeper renews and takes back what another has granted.
func TestRenewByAnotherKeeper(t *testing.T) {
	f := newFleet(t, 1)
	f.lease(6 * time.Second)
	stop := f.keep()
	a := f.ask("a.example.com")
	permit := a.granted()
	f.keep()
	stop()
	b := f.ask("b.example.com").waiting()
	for range 4 { // longer than the lease
		time.Sleep(2 * time.Second)
		renewed, err := a.Renew(f.ctx(), permit)
		if err != nil {
			t.Fatal(err)
		}
		if !renewed.Until.After(permit.Until) {
			t.Errorf("renewed until %v, before it was %v", renewed.Until, permit.Until)
		}
		permit = renewed
	}
	b.notGranted()
	a.release(permit)
	b.release(b.granted())
}

// A holder that is not heard for the lease loses its permit, and what it says too
// late does not free the permit of the next holder.
func TestStaleRelease(t *testing.T) {
	f := newFleet(t, 1)
	f.lease(4 * time.Second)
	f.keep()
	a := f.ask("a.example.com")
	permit := a.granted()
	b := f.ask("b.example.com").waiting()
	b.granted() // by the lapse of a's
	c := f.ask("c.example.com").waiting()
	for _, late := range []schemas.Permit{permit, {Handle: permit.Handle, Until: time.Now().Add(time.Hour)}} {
		if err := a.Release(f.ctx(), late); !errors.Is(err, schemas.ErrConflict) {
			t.Errorf("release of a lapsed permit: %v, want a conflict", err)
		}
		if _, err := a.Renew(f.ctx(), late); !errors.Is(err, schemas.ErrConflict) {
			t.Errorf("renewal of a lapsed permit: %v, want a conflict", err)
		}
	}
	c.notGranted()
}

// A node cannot use what is not its own, and cannot make a permit up.
func TestRogueHandles(t *testing.T) {
	f := newFleet(t, 1)
	f.keep()
	a := f.ask("a.example.com")
	permit := a.granted()
	rogue := f.ask("rogue.example.com").waiting()
	body, mac, _ := strings.Cut(permit.Handle, ".")
	for name, handle := range map[string]string{
		"another node's": permit.Handle, "cut": body, "changed": body[:len(body)-2] + "fQ." + mac, "empty": "", "made up": "e30." + mac, "no text": "\xff.\x00",
	} {
		for action, do := range map[string]func(schemas.Permit) error{
			"release": func(p schemas.Permit) error { return rogue.Release(f.ctx(), p) },
			"renew":   func(p schemas.Permit) error { _, err := rogue.Renew(f.ctx(), p); return err },
		} {
			if err := do(schemas.Permit{Handle: handle, Until: time.Now().Add(time.Minute)}); err == nil {
				t.Errorf("%s of a handle that is %s: no error", action, name)
			}
		}
	}
	rogue.notGranted()
	a.release(permit)
	rogue.granted()
}

// Nodes that died in line are passed over at once, and who leaves leaves no gap.
func TestDeadInLine(t *testing.T) {
	f := newFleet(t, 1)
	f.keep()
	first := f.ask("first.example.com")
	permit := first.granted()
	clients := f.server.Embedded().NumClients()
	for i := range 5 {
		gone := f.ask(fmt.Sprintf("gone%d.example.com", i)).waiting()
		if i%2 == 0 {
			gone.leave()
		} else {
			gone.bucket.Close()
		}
	}
	f.until("NATS knows that two are gone", func() bool { return f.server.Embedded().NumClients() == clients+3 })
	last := f.ask("last.example.com").waiting()
	begin := time.Now()
	first.release(permit)
	last.granted()
	if took := time.Since(begin); took > 20*time.Second {
		t.Errorf("it took %v to pass over five dead nodes; the lease is a minute", took)
	}
}

// A keeper that ends strands nobody.
func TestKeeperEnds(t *testing.T) {
	f := newFleet(t, 1)
	stop := f.keep()
	first := f.ask("first.example.com")
	permit := first.granted()
	second := f.ask("second.example.com").waiting()
	stop()
	f.keep()
	if permit = must(first.Renew(f.ctx(), permit)); permit.Handle == "" {
		t.Error("no handle")
	}
	first.release(permit)
	second.granted()
}

// Without a keeper nothing is granted, and it is said.
func TestNoKeeper(t *testing.T) {
	f := newFleet(t, 1)
	a := f.ask("a.example.com")
	if answer, ok := a.next(patience); !ok || !errors.Is(answer.Err, schemas.ErrUnavailable) {
		t.Errorf("answer %+v, want that nobody answers", answer)
	}
	f.keep()
	a.granted()
}

// Without a limit who asks, and who stands in line already, runs without a permit.
func TestLimitTakenAway(t *testing.T) {
	f := newFleet(t, 1)
	f.keep()
	f.ask("a.example.com").granted()
	b := f.ask("b.example.com").waiting()
	f.limit(0)
	for _, a := range []*asker{b, f.ask("c.example.com")} {
		for {
			answer, open := a.next(patience)
			if !open {
				t.Fatal("no answer")
			}
			if answer.Waiting {
				continue
			}
			if answer.Err != nil || answer.Permit.Handle != "" {
				t.Errorf("answer %+v, want a permit without a handle", answer)
			}
			break
		}
	}
	f.tokens(0)
}

// The limit works live in both directions.
func TestLimitChanged(t *testing.T) {
	f := newFleet(t, 1)
	f.keep()
	f.keep()
	permits := map[*asker]schemas.Permit{}
	a := f.ask("a.example.com")
	permits[a] = a.granted()
	b := f.ask("b.example.com").waiting()
	f.limit(3)
	permits[b] = b.granted()
	c := f.ask("c.example.com")
	permits[c] = c.granted()
	f.tokens(3)
	d := f.ask("d.example.com").waiting()
	f.limit(2)
	f.tokens(2)
	for holder, permit := range permits {
		if _, err := holder.Renew(f.ctx(), permit); err != nil {
			t.Errorf("renewal after the limit was lowered: %v", err)
		}
		holder.release(permit)
	}
	permit := d.granted()
	e := f.ask("e.example.com")
	e.granted()
	last := f.ask("last.example.com").waiting()
	last.notGranted()
	d.release(permit)
	last.granted()
}

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
