package publish_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bellpull/bellpull/cmd/internal/natstest"
	"github.com/bellpull/bellpull/cmd/internal/publish"
	"github.com/bellpull/bellpull/schemas"
)

// A document that grows too large is refused, naming what fills it; other
// events in the same write are not hurt.
func TestDocumentTooLarge(t *testing.T) {
	b := natstest.Bucket(t, natstest.Start(t))
	big := schemas.Value(`"` + strings.Repeat("x", 400<<10) + `"`)
	p := newPublisher(t, b)
	publishOK(t, p, set("1", "first", big), publish.Options{})
	if got := publishOK(t, p, set("2", "second", big), publish.Options{}); len(got.Warnings) != 1 || !strings.Contains(got.Warnings[0], "group/web") {
		t.Errorf("warnings = %q, want one about the document's size", got.Warnings)
	}

	gate := &gate{Bucket: b, hold: make(chan struct{})}
	p = newPublisher(t, gate)
	errs := make([]error, 4)
	var wg sync.WaitGroup
	for i, ev := range []schemas.Event{set("3", "a", "1"), set("4", "third", big), set("5", "b", "1"), set("6", "c", "1")} {
		wg.Go(func() { _, errs[i] = p.Publish(t.Context(), ev, publish.Options{}) })
		gate.waitFor(t, 1)
	}
	time.Sleep(50 * time.Millisecond) // let them queue up behind the first
	close(gate.hold)
	wg.Wait()
	wantError(t, errs[1], schemas.ErrInvalid, "group/web", "first", "second")
	for _, i := range []int{0, 2, 3} {
		if errs[i] != nil {
			t.Errorf("event %d: %v", i, errs[i])
		}
	}
}

// gate is a bucket whose first reading waits.
type gate struct {
	publish.Bucket
	hold chan struct{}

	mu   sync.Mutex
	n    int
	puts int
}

func (g *gate) Read(ctx context.Context, scopes []schemas.Scope) (schemas.Reading, error) {
	g.mu.Lock()
	g.n++
	g.mu.Unlock()
	<-g.hold
	return g.Bucket.Read(ctx, scopes)
}

func (g *gate) Put(ctx context.Context, scope schemas.Scope, body []byte, expect uint64) (uint64, error) {
	g.mu.Lock()
	g.puts++
	g.mu.Unlock()
	return g.Bucket.Put(ctx, scope, body, expect)
}

func (g *gate) waitFor(t *testing.T, readings int) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		g.mu.Lock()
		n := g.n
		g.mu.Unlock()
		if n >= readings {
			return
		}
	}
	t.Fatal("the bucket is not read")
}

// What waits for one scope goes in one write.
func TestQueuedEventsAreWrittenTogether(t *testing.T) {
	b := natstest.Bucket(t, natstest.Start(t))
	gate := &gate{Bucket: b, hold: make(chan struct{})}
	p := newPublisher(t, gate)
	const events = 50
	results, errs := make([]publish.Result, events), make([]error, events)
	var started, wg sync.WaitGroup
	started.Add(events)
	for i := range events {
		wg.Go(func() {
			started.Done()
			results[i], errs[i] = p.Publish(t.Context(), set(fmt.Sprint(i), fmt.Sprintf("e%02d", i), "1"), publish.Options{})
		})
	}
	started.Wait()
	gate.waitFor(t, 1)
	time.Sleep(50 * time.Millisecond) // let the rest queue up behind the first
	close(gate.hold)
	wg.Wait()
	revisions := make(map[uint64]bool)
	for i := range events {
		if errs[i] != nil || !results[i].Changed {
			t.Fatalf("event %d: %+v, %v", i, results[i], errs[i])
		}
		revisions[results[i].Revision] = true
	}
	if gate.puts > 3 || len(revisions) != gate.puts {
		t.Errorf("%d writes for %d events, %d revisions, want 2 or 3 writes", gate.puts, events, len(revisions))
	}
	if got := standing(t, b); len(got.Document.Entries) != events {
		t.Errorf("%d entries stand, want %d", len(got.Document.Entries), events)
	}
}

// Of those that want the same revision one is written, although they wait
// together.
func TestIfRevisionInAQueue(t *testing.T) {
	b := natstest.Bucket(t, natstest.Start(t))
	gate := &gate{Bucket: b, hold: make(chan struct{})}
	p := newPublisher(t, gate)
	const writers = 20
	errs := make([]error, writers)
	var started, wg sync.WaitGroup
	wg.Go(func() {
		if _, err := p.Publish(t.Context(), set("first", "x", "0"), publish.Options{}); err != nil {
			t.Errorf("first: %v", err)
		}
	})
	gate.waitFor(t, 1)
	second := uint64(2) // the first event's, after that of the bucket's id
	started.Add(writers)
	for i := range writers {
		wg.Go(func() {
			started.Done()
			_, errs[i] = p.Publish(t.Context(), set(fmt.Sprint(i), "x", "1"), publish.Options{IfRevision: &second})
		})
	}
	started.Wait()
	time.Sleep(50 * time.Millisecond) // let them queue up behind the first
	close(gate.hold)
	wg.Wait()
	won := 0
	for _, err := range errs {
		if err == nil {
			won++
		} else {
			wantError(t, err, schemas.ErrConflict, "revision 3, not 2")
		}
	}
	if won != 1 {
		t.Errorf("%d of %d were written, want 1", won, writers)
	}
}

// The attempts are bounded, and so is the time they take.
func TestAlwaysRaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPublisher(t, raced{})
		start := time.Now()
		_, err := p.Publish(t.Context(), set("1", "x", "1"), publish.Options{})
		wantError(t, err, schemas.ErrConflict, "group/web", "faster")
		if took := time.Since(start); took == 0 || took > publish.Timeout {
			t.Errorf("took %v, want pauses, and at most %v", took, publish.Timeout)
		}
	})
}

// raced is a bucket in which others are always faster.
type raced struct{}

func (raced) Read(_ context.Context, scopes []schemas.Scope) (schemas.Reading, error) {
	return schemas.Reading{Bucket: "id", Scopes: []schemas.ScopeReading{{Scope: scopes[0]}}}, nil
}

func (raced) Put(context.Context, schemas.Scope, []byte, uint64) (uint64, error) {
	return 0, fmt.Errorf("%w: raced", schemas.ErrConflict)
}
