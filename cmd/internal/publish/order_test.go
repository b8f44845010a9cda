package publish_test

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bellpull/bellpull/cmd/internal/natskv"
	"github.com/bellpull/bellpull/cmd/internal/natstest"
	"github.com/bellpull/bellpull/cmd/internal/publish"
	"github.com/bellpull/bellpull/schemas"
)

// The promise of package publish: timed events end in the same document in
// whatever order, how often and through however many publishers they come.
func TestAnyOrderEndsInTheSameDocument(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	t.Run("one replica", func(t *testing.T) {
		srv := natstest.Start(t)
		natstest.Bucket(t, srv)
		anyOrder(t, r, []string{srv.URL()}, 6)
	})
	t.Run("three replicas", func(t *testing.T) {
		var urls []string
		for _, srv := range natstest.Cluster(t, 3) {
			urls = append(urls, srv.URL())
		}
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		if _, err := natstest.Dial(t, natskv.Config{Servers: urls}).Init(ctx, natskv.InitOptions{Replicas: 3}); err != nil {
			t.Fatal(err)
		}
		anyOrder(t, r, urls, 1)
	})
}

func anyOrder(t *testing.T, r *rand.Rand, urls []string, rounds int) {
	now := time.Now().UTC().Truncate(time.Second)
	var publishers []*publish.Publisher
	for range 4 { // as many gateways, each with a connection of its own
		publishers = append(publishers, publish.New(publish.Config{
			Bucket: natstest.Dial(t, natskv.Config{Servers: urls}), Kinds: noKinds{}, Now: func() time.Time { return now },
		}))
	}
	reader := natstest.Dial(t, natskv.Config{Servers: urls})
	for round := range rounds {
		events := timedEvents(r, now)
		want := inOrder(t, events, now)
		for delivery := range 3 {
			scope := schemas.Scope(fmt.Sprintf("group/round%d-%d", round, delivery))
			last := deliver(t, r, publishers, events, scope)
			got := document(t, reader, scope, last)
			if string(got) != string(want) {
				t.Fatalf("round %d, delivery %d: the document is\n%s\nwant, as in the order of the events,\n%s", round, delivery, got, want)
			}
		}
	}
}

// timedEvents are sets and removals of few entries in few moments, so that
// they meet: equal times, equal ids from several sources, entries that have
// expired and that will.
func timedEvents(r *rand.Rand, now time.Time) []schemas.Event {
	pick := func(of ...string) string { return of[r.IntN(len(of))] }
	var events []schemas.Event
	for i := range 40 {
		ev := schemas.Event{
			ID: fmt.Sprintf("e%d", i/2), Source: pick("shop/deploy", "soc", ""), Scope: "common",
			Entry: pick("a", "b", "rules[tcp-80]", "rules[tcp-443]"), Action: schemas.ActionRemove,
			Time: now.Add(-time.Duration(r.IntN(6)) * time.Minute),
		}
		if i%2 == 1 { // the same id as the event before, from another source
			ev.Source = "second"
		}
		if r.IntN(3) > 0 {
			ev.Action = schemas.ActionSet
			ev.Value = schemas.Value(fmt.Sprint(r.IntN(5)))
			ev.Sensitive = r.IntN(4) == 0
			ev.TTL = []time.Duration{0, 90 * time.Second, time.Hour}[r.IntN(3)]
			ev.Run.Tags = []string{pick("x", "y")}
		}
		events = append(events, ev)
	}
	// Too old for any document, and so without a trace.
	old := events[0]
	old.ID, old.Time = "old", now.Add(-schemas.MaxAge-time.Minute)
	return append(events, old)
}

// inOrder is the document that the events make in their own order.
func inOrder(t *testing.T, events []schemas.Event, now time.Time) []byte {
	t.Helper()
	sorted := slices.SortedFunc(slices.Values(events), func(a, b schemas.Event) int {
		return cmp.Or(a.Time.Compare(b.Time), cmp.Compare(a.Source, b.Source), cmp.Compare(a.ID, b.ID))
	})
	var doc schemas.Document
	for _, ev := range sorted {
		next, _, err := doc.Apply(ev, now)
		if err != nil {
			t.Fatal(err)
		}
		doc = next
	}
	body, err := doc.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	return body
}

// deliver sends every event to the scope one to three times, shuffled, through
// all publishers at once, and returns the scope's revision in the end.
func deliver(t *testing.T, r *rand.Rand, publishers []*publish.Publisher, events []schemas.Event, scope schemas.Scope) uint64 {
	t.Helper()
	lists := make([][]schemas.Event, len(publishers))
	for _, ev := range events {
		ev.Scope = scope
		for range 1 + r.IntN(3) {
			i := r.IntN(len(lists))
			lists[i] = append(lists[i], ev)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var last atomic.Uint64
	var wg sync.WaitGroup
	for i, list := range lists {
		r.Shuffle(len(list), func(a, b int) { list[a], list[b] = list[b], list[a] })
		half := len(list) / 2
		for _, part := range [][]schemas.Event{list[:half], list[half:]} { // two senders each, so that batches form
			wg.Go(func() {
				for _, ev := range part {
					result, err := publishers[i].Publish(ctx, ev, publish.Options{})
					if err != nil {
						t.Errorf("publish %s of %s: %v", ev.ID, ev.Source, err)
					}
					for seen := last.Load(); result.Revision > seen && !last.CompareAndSwap(seen, result.Revision); {
						seen = last.Load()
					}
				}
			})
		}
	}
	wg.Wait()
	return last.Load()
}

// document reads the scope's document as text, once the replica that answers
// has the revision.
func document(t *testing.T, b *natskv.Bucket, scope schemas.Scope, revision uint64) []byte {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	reading, err := b.Read(ctx, []schemas.Scope{scope})
	for err == nil && reading.Scopes[0].Revision < revision {
		reading, err = b.Read(ctx, []schemas.Scope{scope})
	}
	if err != nil || reading.Scopes[0].Err != nil {
		t.Fatalf("read %s: %v, %v", scope, err, reading.Scopes)
	}
	body, err := reading.Scopes[0].Document.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	return body
}

// noKinds knows no kinds, and the events name none.
type noKinds struct{}

func (noKinds) Complete(ev schemas.Event) (schemas.Event, error) { return ev, nil }

// Timeless events of several publishers at once: none is lost, none is applied
// twice.
func TestNoUpdateIsLost(t *testing.T) {
	srv := natstest.Start(t)
	reader := natstest.Bucket(t, srv)
	const publishers, each = 4, 25
	var wg sync.WaitGroup
	for n := range publishers {
		b := natstest.Dial(t, natskv.Config{Servers: []string{srv.URL()}})
		p := publish.New(publish.Config{Bucket: b, Kinds: noKinds{}})
		wg.Go(func() {
			for i := range each {
				ev := set(fmt.Sprintf("%d-%d", n, i), fmt.Sprintf("e%d-%d", n, i), "1")
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				if _, err := p.Publish(ctx, ev, publish.Options{}); err != nil {
					t.Errorf("publish %s: %v", ev.ID, err)
				}
				cancel()
			}
		})
	}
	wg.Wait()
	if got := len(standing(t, reader).Document.Entries); got != publishers*each {
		t.Errorf("%d entries stand, want %d", got, publishers*each)
	}
}
