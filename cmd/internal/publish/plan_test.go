package publish_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/bellpull/bellpull/cmd/internal/natskv"
	"github.com/bellpull/bellpull/cmd/internal/natstest"
	"github.com/bellpull/bellpull/cmd/internal/publish"
	"github.com/bellpull/bellpull/schemas"
)

func nodes(n int) []schemas.Scope {
	scopes := make([]schemas.Scope, n)
	for i := range scopes {
		scopes[i] = schemas.Scope(fmt.Sprintf("node/n%d", i))
	}
	return scopes
}

// setting sets x in every scope, unless it has that value already.
func setting(value schemas.Value) publish.Decide {
	return func(_ context.Context, standing schemas.ScopeReading) ([]schemas.Event, error) {
		if standing.Document.Entries["x"].Value == value {
			return nil, nil
		}
		ev := set("run", "x", value)
		ev.ID, ev.Scope, ev.Once = "run-"+string(value), standing.Scope, true
		return []schemas.Event{ev}, nil
	}
}

func plan(t *testing.T, p *publish.Publisher, scopes []schemas.Scope, decide publish.Decide) *publish.Plan {
	t.Helper()
	got, err := p.Plan(t.Context(), scopes, decide)
	if err != nil {
		t.Fatalf("plan: %v", err)
	}
	return got
}

func values(t *testing.T, b *natskv.Bucket, scopes []schemas.Scope) map[schemas.Value]int {
	t.Helper()
	reading, err := b.Read(t.Context(), scopes)
	if err != nil {
		t.Fatal(err)
	}
	out := map[schemas.Value]int{}
	for _, r := range reading.Scopes {
		out[r.Document.Entries["x"].Value]++
	}
	return out
}

// Many scopes, more than one batch; a second time there is nothing to do.
func TestPlan(t *testing.T) {
	b := natstest.Bucket(t, natstest.Start(t))
	p := newPublisher(t, b)
	scopes := nodes(natskv.MaxBatch + 50)
	first := plan(t, p, scopes, setting("1"))
	if first.Scopes() != len(scopes) {
		t.Fatalf("the plan changes %d scopes, want %d", first.Scopes(), len(scopes))
	}
	if got := values(t, b, scopes[:10]); got[""] != 10 {
		t.Fatalf("%v stands, want nothing written by a plan", got)
	}
	if done, err := first.Write(t.Context(), b); done != len(scopes) || err != nil {
		t.Fatalf("wrote %d, %v, want all", done, err)
	}
	if got := values(t, b, scopes); got["1"] != len(scopes) {
		t.Errorf("%v stands", got)
	}
	if again := plan(t, p, scopes, setting("1")); again.Scopes() != 0 {
		t.Errorf("the second plan changes %d scopes, want 0", again.Scopes())
	}
}

// Everything is checked before anything is written.
func TestPlanRefused(t *testing.T) {
	srv := natstest.Start(t)
	b := natstest.Bucket(t, srv)
	p := newPublisher(t, b)
	scopes := nodes(500)
	bad := func(change func(*schemas.Event)) publish.Decide {
		return func(ctx context.Context, standing schemas.ScopeReading) ([]schemas.Event, error) {
			events, err := setting("1")(ctx, standing)
			if standing.Scope == scopes[400] {
				change(&events[0])
			}
			return events, err
		}
	}
	_, err := p.Plan(t.Context(), scopes, bad(func(ev *schemas.Event) { ev.Kind = "firewall_rule" }))
	wantError(t, err, schemas.ErrInvalid, string(scopes[400]), `"x"`)
	if _, err := natstest.Conn(t, srv).Request("$KV.desired."+scopes[400].Key(), []byte("hello"), 5*time.Second); err != nil {
		t.Fatal(err)
	}
	_, err = p.Plan(t.Context(), scopes, setting("1"))
	wantError(t, err, schemas.ErrConflict, string(scopes[400]), "rollback")
	wrong := errors.New("undecided")
	_, err = p.Plan(t.Context(), scopes, func(context.Context, schemas.ScopeReading) ([]schemas.Event, error) { return nil, wrong })
	wantError(t, err, wrong)
}

// Whoever writes between plan and write is not overwritten unseen: the decision is made anew.
func TestPlanMeetsAnotherWriter(t *testing.T) {
	b := natstest.Bucket(t, natstest.Start(t))
	p := newPublisher(t, b)
	scopes := nodes(100)
	keep := func(ctx context.Context, standing schemas.ScopeReading) ([]schemas.Event, error) {
		if standing.Document.Entries["x"].Value == "9" {
			return nil, nil
		}
		return setting("1")(ctx, standing)
	}
	planned := plan(t, p, scopes, keep)
	other := set("incident", "x", "9")
	other.Scope = scopes[42]
	publishOK(t, p, other, publish.Options{})
	if done, err := planned.Write(t.Context(), b); done != len(scopes) || err != nil {
		t.Fatalf("wrote %d, %v, want all", done, err)
	}
	if got := values(t, b, scopes); got["9"] != 1 || got["1"] != 99 {
		t.Errorf("%v stands, want the other writer's value and 99 of the plan's", got)
	}
	// Writers that come again and again.
	planned = plan(t, p, scopes, setting("2"))
	stop := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			ev := set(fmt.Sprint("noise-", i), "y", "1")
			ev.Scope = scopes[i%len(scopes)]
			if _, err := p.Publish(context.Background(), ev, publish.Options{}); err != nil {
				t.Error(err)
			}
			time.Sleep(20 * time.Millisecond)
		}
	})
	_, err := planned.Write(t.Context(), b)
	close(stop)
	wg.Wait()
	if got := values(t, b, scopes); err != nil || got["2"] != len(scopes) {
		t.Errorf("%v stands, %v, want the plan's values", got, err)
	}
}

// flaky stores, and then says that it does not know, or fails before it stores.
type flaky struct {
	*natskv.Bucket
	calls  int
	stores int // how many calls store
	fail   int // from which call on there is no answer
}

func (f *flaky) PutAll(ctx context.Context, puts []natskv.Put) ([]uint64, error) {
	f.calls++
	if f.calls <= f.stores {
		revisions, err := f.Bucket.PutAll(ctx, puts)
		if f.calls < f.fail || err != nil {
			return revisions, err
		}
	}
	return nil, fmt.Errorf("%w: no answer", schemas.ErrUnavailable)
}

// A batch whose acknowledgement was lost is not written twice; one that fails for good leaves those before it, and says so.
func TestPlanEndsEarly(t *testing.T) {
	b := natstest.Bucket(t, natstest.Start(t))
	p := newPublisher(t, b)
	scopes := nodes(natskv.MaxBatch + 10)
	lost := &flaky{Bucket: b, stores: 9, fail: 1}
	done, err := plan(t, p, scopes, setting("1")).Write(t.Context(), lost)
	if done != len(scopes) || err != nil || lost.calls != 2 {
		t.Errorf("acknowledgements lost: wrote %d in %d calls, %v, want all in 2", done, lost.calls, err)
	}
	down := &flaky{Bucket: b, stores: 1, fail: 2}
	done, err = plan(t, p, scopes, setting("2")).Write(t.Context(), down)
	if done != natskv.MaxBatch {
		t.Errorf("down after the first batch: wrote %d, want %d", done, natskv.MaxBatch)
	}
	wantError(t, err, schemas.ErrUnavailable)
	rest := plan(t, p, scopes, setting("2"))
	if rest.Scopes() != 10 {
		t.Errorf("the next plan changes %d scopes, want the 10 that are left", rest.Scopes())
	}
}

// A server that takes fewer at once gets fewer.
func TestPlanServerLimit(t *testing.T) {
	b := natstest.Bucket(t, natstest.Start(t, func(o *server.Options) { o.JetStreamLimits.MaxBatchSize = 7 }))
	p := newPublisher(t, b)
	scopes := nodes(50)
	if done, err := plan(t, p, scopes, setting("1")).Write(t.Context(), b); done != 50 || err != nil {
		t.Errorf("wrote %d, %v, want all", done, err)
	}
}
