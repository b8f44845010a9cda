package schemas_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/bellpull/bellpull/schemas"
)

var noon = time.Date(2026, 12, 1, 12, 0, 0, 0, time.UTC)

// set returns a timed event at noon plus after.
func set(id, entry string, after time.Duration, value string) schemas.Event {
	return schemas.Event{
		ID: id, Source: "test", Time: noon.Add(after), Scope: "common", Entry: entry,
		Action: schemas.ActionSet, Value: schemas.Value(value),
	}
}

func remove(id, entry string, after time.Duration) schemas.Event {
	ev := set(id, entry, after, "")
	ev.Action = schemas.ActionRemove
	return ev
}

func timeless(ev schemas.Event) schemas.Event {
	ev.Time = time.Time{}
	return ev
}

// apply applies events at noon and fails the test on an error.
func apply(t *testing.T, doc schemas.Document, events ...schemas.Event) (schemas.Document, schemas.Outcome) {
	t.Helper()
	var outcome schemas.Outcome
	for _, ev := range events {
		var err error
		if doc, outcome, err = doc.Apply(ev, noon); err != nil {
			t.Fatalf("apply %s: %v", ev.ID, err)
		}
	}
	return doc, outcome
}

func wantText(t *testing.T, doc schemas.Document, want string) {
	t.Helper()
	body, err := doc.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	if got := string(body); got != want {
		t.Errorf("document is\n%s\nwant\n%s", got, want)
	}
}

func TestApplySetsAndRemoves(t *testing.T) {
	ev := set("e1", "x", -time.Minute, `{"port":1}`)
	ev.Kind, ev.TTL, ev.Sensitive, ev.Owner = "k", time.Hour, true, "apply:p"
	doc, outcome := apply(t, schemas.Document{}, ev)
	if !outcome.Changed || outcome.Superseded || !outcome.Time.Equal(ev.Time) {
		t.Errorf("outcome = %+v", outcome)
	}
	wantText(t, doc, `{"bellpull":1,"entries":{"x":{"value":{"port":1},"kind":"k","event":"e1","source":"test",`+
		`"time":"2026-12-01T11:59:00Z","expires":"2026-12-01T12:59:00Z","sensitive":true,"owner":"apply:p"}}}`)
	doc, _ = apply(t, doc, remove("e2", "x", 0))
	wantText(t, doc, `{"bellpull":1,"entries":{},"removed":{"x":{"event":"e2","source":"test","time":"2026-12-01T12:00:00Z"}}}`)
}

func TestApplyOrdersEvents(t *testing.T) {
	base, _ := apply(t, schemas.Document{}, set("m", "x", 0, "1"))
	other := set("a", "x", 0, "2")
	other.Source = "zz"
	for _, test := range []struct {
		name                string
		doc                 schemas.Document
		ev                  schemas.Event
		changed, superseded bool
	}{
		{"later", base, set("a", "x", time.Second, "2"), true, false},
		{"earlier", base, set("z", "x", -time.Second, "2"), false, true},
		{"same time, greater id", base, set("n", "x", 0, "2"), true, false},
		{"same time, smaller id", base, set("l", "x", 0, "2"), false, true},
		{"same time, greater source", base, other, true, false},
		{"same event again", base, set("m", "x", 0, "1"), false, false},
		{"same event with another time", base, set("m", "x", time.Second, "1"), false, false},
		{"equal value, later event", base, set("n", "x", time.Second, "1"), true, false},
		{"removal of another entry", base, remove("n", "y", 0), true, false},
		{"earlier removal", base, remove("n", "x", -time.Second), false, true},
		{"older than 7 days", schemas.Document{}, set("o", "x", -schemas.MaxAge-1, "1"), false, true},
		{"7 days old", schemas.Document{}, set("o", "x", -schemas.MaxAge, "1"), true, false},
		{"before superseded_before", schemas.Emptied(noon), set("o", "x", -1, "1"), false, true},
		{"at superseded_before", schemas.Emptied(noon), set("o", "x", 0, "1"), false, true},
		{"after superseded_before", schemas.Emptied(noon), set("o", "x", 1, "1"), true, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			before, err := test.doc.Marshal()
			if err != nil {
				t.Fatal(err)
			}
			_, got := apply(t, test.doc, test.ev)
			if got.Changed != test.changed || got.Superseded != test.superseded {
				t.Errorf("got changed %v, superseded %v; want %v, %v", got.Changed, got.Superseded, test.changed, test.superseded)
			}
			wantText(t, test.doc, string(before)) // Apply leaves its receiver alone
		})
	}
}

func TestApplyRefusesOtherContentUnderTheSameID(t *testing.T) {
	ev := set("e1", "x", 0, "1")
	ev.TTL, ev.Kind = time.Hour, "k"
	doc, _ := apply(t, schemas.Document{}, ev)
	for name, change := range map[string]func(*schemas.Event){
		"value":     func(ev *schemas.Event) { ev.Value = "2" },
		"kind":      func(ev *schemas.Event) { ev.Kind = "other" },
		"ttl":       func(ev *schemas.Event) { ev.TTL = 2 * time.Hour },
		"sensitive": func(ev *schemas.Event) { ev.Sensitive = true },
		"run":       func(ev *schemas.Event) { ev.Run.Noop = true },
		"action":    func(ev *schemas.Event) { *ev = remove("e1", "x", 0) },
	} {
		changed := ev
		change(&changed)
		if _, _, err := doc.Apply(changed, noon); !errors.Is(err, schemas.ErrConflict) || !strings.Contains(err.Error(), `"e1"`) {
			t.Errorf("other %s: got %v, want ErrConflict that names the event", name, err)
		}
	}
	gone, _ := apply(t, doc, remove("e2", "x", time.Second))
	if _, _, err := gone.Apply(set("e2", "x", 0, "1"), noon); !errors.Is(err, schemas.ErrConflict) {
		t.Errorf("set under a removal's id: got %v, want ErrConflict", err)
	}
}

func TestApplyChecksTheEvent(t *testing.T) {
	_, _, err := schemas.Document{}.Apply(set("e", "x", schemas.MaxFuture+1, "1"), noon)
	wantFault(t, err, "/time", "ahead of this machine's clock")
	_, _, err = schemas.Document{}.Apply(schemas.Event{Scope: "a//b", Entry: "<<", Action: "put"}, noon)
	for _, pointer := range []string{"/id", "/scope", "/entry", "/action"} {
		wantFault(t, err, pointer, "")
	}
	bad := set("e", "x", 0, "")
	bad.Kind, bad.TTL = " ", time.Millisecond
	bad.Run = schemas.RunPolicy{Trigger: "soon", Splay: -1, Tags: []string{"", "ok"}}
	for _, pointer := range []string{"/value", "/kind", "/ttl", "/run/trigger", "/run/splay", "/run/tags/0"} {
		wantFault(t, bad.Check(), pointer, "")
	}
	withValue := remove("e", "x", 0)
	withValue.Value = "1"
	wantFault(t, withValue.Check(), "/action", "no value")
}

func TestApplyKeepsMembersAndOneValueApart(t *testing.T) {
	doc, _ := apply(t, schemas.Document{}, set("e1", "x[a]", 0, "1"), set("e2", "y", 0, "{}"))
	for _, entry := range []string{"x", "y[a]"} {
		if _, _, err := doc.Apply(set("e3", entry, 0, "{}"), noon); !errors.Is(err, schemas.ErrConflict) || !strings.Contains(err.Error(), "remove that first") {
			t.Errorf("set %s: got %v, want ErrConflict", entry, err)
		}
	}
	apply(t, doc, set("e4", "x[b]", 0, "1"), remove("e5", "y", 0), set("e6", "y[a]", 0, "1"))

	short := set("e7", "z", -time.Hour, "{}")
	short.TTL = time.Minute
	apply(t, schemas.Document{}, short, set("e8", "z[a]", 0, "1")) // an expired value is in nobody's way
}

func TestTimelessEventsAlwaysWinAndRepeatHarmlessly(t *testing.T) {
	ahead, _ := apply(t, schemas.Document{}, set("e1", "x", time.Minute, "1"))
	doc, outcome := apply(t, ahead, timeless(set("t1", "x", 0, "2")))
	if want := noon.Add(time.Minute + time.Millisecond); !outcome.Changed || !outcome.Time.Equal(want) {
		t.Errorf("outcome = %+v, want changed just after the standing time, %v", outcome, want)
	}
	if _, outcome := apply(t, schemas.Emptied(noon.Add(time.Second)), timeless(set("t1", "x", 0, "2"))); !outcome.Time.After(noon.Add(time.Second)) {
		t.Errorf("time after a deletion marker = %v", outcome.Time)
	}

	// t1 comes again, at once and after others.
	for range 2 {
		_, outcome := apply(t, doc, timeless(set("t1", "x", 0, "2")))
		if outcome.Changed || outcome.Superseded {
			t.Errorf("repetition: %+v, want no change", outcome)
		}
		doc, _ = apply(t, doc, timeless(set("t2", "x", 0, "3")), timeless(remove("t3", "x", 0)))
	}
	if got := len(doc.Removed["x"].Seen); got != 3 {
		t.Errorf("seen holds %d ids, want 3", got)
	}

	// 16 ids are remembered, for 7 days.
	for i := range 20 {
		doc, _ = apply(t, doc, timeless(set(fmt.Sprint("n", i), "x", 0, "4")))
	}
	if got := len(doc.Entries["x"].Seen); got != schemas.MaxSeen {
		t.Errorf("seen holds %d ids, want %d", got, schemas.MaxSeen)
	}
	later, _, err := doc.Apply(set("w", "x", 8*24*time.Hour, "5"), noon.Add(8*24*time.Hour))
	if err != nil || len(later.Entries["x"].Seen) != 0 {
		t.Errorf("after 8 days seen holds %d ids, %v; want none", len(later.Entries["x"].Seen), err)
	}

	once := timeless(set("made-up", "y", 0, "1"))
	once.Once = true
	if doc, _ = apply(t, doc, once); len(doc.Entries["y"].Seen) != 0 {
		t.Error("an id that cannot come again is remembered")
	}
}

func TestExpiryLeavesARecord(t *testing.T) {
	ban := set("ban", "x", -2*time.Hour, "1")
	ban.TTL = time.Hour
	doc, outcome := apply(t, schemas.Document{}, ban)
	if !outcome.Changed || len(doc.Entries) != 0 || !doc.Removed["x"].Expired {
		t.Fatalf("an entry that came after its expiry: %+v, %+v; want a record", outcome, doc)
	}
	if _, outcome := apply(t, doc, set("old", "x", -3*time.Hour, "2")); !outcome.Superseded {
		t.Errorf("an older event after the expiry: %+v, want superseded", outcome)
	}
	if _, outcome := apply(t, doc, ban); outcome.Changed || outcome.Superseded {
		t.Errorf("the expired event again: %+v, want no change", outcome)
	}
	if _, outcome := apply(t, doc, set("new", "x", -time.Hour, "3")); !outcome.Changed {
		t.Errorf("a newer event after the expiry: %+v, want changed", outcome)
	}
}

func TestRemovalsAreForgotten(t *testing.T) {
	doc, _ := apply(t, schemas.Document{}, remove("e0", "old", -schemas.MaxAge+time.Minute))
	doc, _, err := doc.Apply(remove("e1", "x", time.Hour), noon.Add(time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	if _, kept := doc.Removed["old"]; kept {
		t.Error("a removal of more than 7 days ago is kept")
	}

	var outcome schemas.Outcome
	for i := range schemas.MaxRemoved + 1 {
		doc, outcome, err = doc.Apply(remove(fmt.Sprint("r", i), fmt.Sprintf("n%04d", i), time.Duration(i)*time.Millisecond), noon)
		if err != nil {
			t.Fatal(err)
		}
	}
	if len(doc.Removed) != schemas.MaxRemoved || len(outcome.Warnings) != 1 {
		t.Errorf("%d removals kept, warnings %q; want %d and one", len(doc.Removed), outcome.Warnings, schemas.MaxRemoved)
	}
	if want := noon.Add(time.Millisecond); !doc.SupersededBefore.Equal(want) {
		t.Errorf("superseded_before = %v, want the time of the youngest forgotten removal, %v", doc.SupersededBefore, want)
	}
	if _, outcome := apply(t, doc, set("late", "n0001", 0, "1")); !outcome.Superseded {
		t.Errorf("an event older than a forgotten removal: %+v, want superseded", outcome)
	}
}

// Timed events end in the same document in whatever order, and however often,
// they arrive.
func TestTimedEventsConverge(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	rng := rand.New(rand.NewPCG(seed, 0))
	for round := range 200 {
		var events []schemas.Event
		for i := range 12 {
			ev := set(fmt.Sprintf("id%d", rng.IntN(4)+4*i), fmt.Sprint("x", rng.IntN(3)), -time.Duration(rng.IntN(4))*time.Minute, fmt.Sprint(i))
			ev.Source = fmt.Sprint("source", rng.IntN(2))
			switch rng.IntN(3) {
			case 0:
				ev = schemas.Event{ID: ev.ID, Source: ev.Source, Time: ev.Time, Scope: ev.Scope, Entry: ev.Entry, Action: schemas.ActionRemove}
			case 1:
				ev.TTL = time.Duration(rng.IntN(300)+1) * time.Second
			}
			events = append(events, ev)
		}
		var want string
		for order := range 6 {
			delivered := append(append([]schemas.Event(nil), events...), events[:rng.IntN(len(events))]...)
			rng.Shuffle(len(delivered), func(i, j int) { delivered[i], delivered[j] = delivered[j], delivered[i] })
			doc, _ := apply(t, schemas.Document{}, delivered...)
			body, err := doc.Marshal()
			if err != nil {
				t.Fatal(err)
			}
			if order == 0 {
				want = string(body)
			} else if string(body) != want {
				t.Fatalf("seed %d, round %d: order %d ends in\n%s\nwant\n%s", seed, round, order, body, want)
			}
		}
	}
}
