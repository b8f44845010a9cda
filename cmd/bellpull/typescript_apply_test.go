package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/bellpull/bellpull/schemas"
)

type typescriptCase struct {
	Document string            `json:"document"`
	Message  time.Time         `json:"message"` // time of the document's message
	Now      time.Time         `json:"now"`
	Events   []typescriptEvent `json:"events"`

	want     schemas.Document
	outcomes []string
}

type typescriptEvent struct {
	ID        string    `json:"id"`
	Source    string    `json:"source"`
	Time      time.Time `json:"time"`
	Entry     string    `json:"entry"`
	ValueText string    `json:"valueText"`
	Kind      string    `json:"kind,omitempty"`
	TTL       int       `json:"ttl,omitempty"`
	Sensitive bool      `json:"sensitive,omitempty"`
}

func (ev typescriptEvent) event(t *testing.T) schemas.Event {
	t.Helper()
	value, err := schemas.ParseValue([]byte(ev.ValueText))
	if err != nil {
		t.Fatal(err)
	}
	return schemas.Event{
		ID: ev.ID, Source: ev.Source, Time: ev.Time, Scope: "common", Entry: ev.Entry, Action: schemas.ActionSet,
		Value: value, Kind: ev.Kind, TTL: time.Duration(ev.TTL) * time.Second, Sensitive: ev.Sensitive,
	}
}

// It makes of random events in random order what bellpull makes of them.
func typescriptApply(t *testing.T, dir string) {
	random := rand.New(rand.NewPCG(1, 2))
	cases := make([]typescriptCase, 300)
	for i := range cases {
		cases[i] = randomCase(t, random)
	}
	input, err := json.Marshal(cases)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "node", "apply.mjs")
	cmd.Dir, cmd.Stdin, cmd.Stderr = dir, strings.NewReader(string(input)), os.Stderr
	output, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	var results []struct {
		Document string
		Outcomes []string
	}
	unmarshal(t, string(output), &results)
	seen := map[string]int{}
	for i, c := range cases {
		for _, outcome := range c.outcomes {
			seen[outcome]++
		}
		if got, want := fmt.Sprint(results[i].Outcomes), fmt.Sprint(c.outcomes); got != want {
			t.Fatalf("case %d: outcomes %s, want %s\n%s", i, got, want, show(t, c))
		}
		got, err := schemas.ParseDocument([]byte(results[i].Document))
		if err != nil {
			t.Fatalf("case %d: %v", i, err)
		}
		if got, want := marshal(t, got), marshal(t, c.want); got != want {
			t.Fatalf("case %d: got %s\nwant %s\n%s", i, got, want, show(t, c))
		}
	}
	for _, outcome := range []string{"changed", "unchanged", "superseded", "ConflictError", "InvalidError"} {
		if seen[outcome] == 0 {
			t.Errorf("no event was %s", outcome)
		}
	}
}

// randomCase makes a document by bellpull's own hand, and says what becomes of
// further events.
func randomCase(t *testing.T, random *rand.Rand) typescriptCase {
	t.Helper()
	pick := func(of ...string) string { return of[random.IntN(len(of))] }
	c := typescriptCase{Now: time.Date(2026, 12, 1, 10, 0, 0, 123456789, time.UTC)}
	c.Message = c.Now.Add(-time.Hour)
	when := func() time.Time {
		return c.Now.Add([]time.Duration{
			-8 * 24 * time.Hour, -time.Hour - 1, -time.Hour, -time.Minute - 1, -time.Minute, 0, 1, time.Minute, time.Hour,
		}[random.IntN(9)])
	}
	next := func() typescriptEvent {
		return typescriptEvent{
			ID: pick("1", "2", "3", "\U00010400", "\uff01"), Source: pick("", "a", "b"), Time: when(),
			Entry: pick("a", "b", "a[b]", "a[c]", "__proto__"), ValueText: pick("1", "1.0", "12345678901234567890", `{"b":1e3,"a":[null]}`, `{"a":[null],"b":1e3}`),
			Kind: pick("", "", "k"), TTL: random.IntN(3) * 45, Sensitive: random.IntN(8) == 0,
		}
	}
	doc := schemas.Document{Entries: map[string]schemas.Entry{"theirs": {Value: `"without a time"`}}}
	for range random.IntN(5) {
		ev := next().event(t)
		switch random.IntN(4) {
		case 0:
			ev = schemas.Event{ID: ev.ID, Source: ev.Source, Time: ev.Time, Scope: ev.Scope, Entry: ev.Entry, Action: schemas.ActionRemove}
		case 1:
			ev.Time = time.Time{} // timeless: remembered in seen
		}
		if after, _, err := doc.Dated(c.Message).Apply(ev, c.Now.Add(-2*time.Minute)); err == nil {
			doc = after
		}
	}
	if random.IntN(4) == 0 {
		doc.SupersededBefore = when()
	}
	c.Document = marshal(t, doc)
	doc = doc.Dated(c.Message)
	for range 1 + random.IntN(4) {
		ev := next()
		c.Events = append(c.Events, ev)
		after, outcome, err := doc.Apply(ev.event(t), c.Now)
		switch {
		case errors.Is(err, schemas.ErrConflict):
			c.outcomes = append(c.outcomes, "ConflictError")
		case errors.Is(err, schemas.ErrInvalid):
			c.outcomes = append(c.outcomes, "InvalidError")
		case err != nil:
			t.Fatal(err)
		case outcome.Superseded:
			c.outcomes = append(c.outcomes, "superseded")
		case outcome.Changed:
			c.outcomes = append(c.outcomes, "changed")
		default:
			c.outcomes = append(c.outcomes, "unchanged")
		}
		if err == nil {
			doc = after
		}
	}
	c.want = doc
	return c
}

func show(t *testing.T, c typescriptCase) string {
	t.Helper()
	text, err := json.MarshalIndent(c, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func marshal(t *testing.T, doc schemas.Document) string {
	t.Helper()
	text, err := doc.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
