package factsource_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bellpull/bellpull/factsource"
	"github.com/bellpull/bellpull/schemas"
)

const (
	node   schemas.Scope = "node/web1.example.com"
	group  schemas.Scope = "group/web"
	common schemas.Scope = "common"
)

// store is a bucket in memory.
type store struct {
	bucket string
	scopes map[schemas.Scope]schemas.ScopeReading
	err    error
	reads  int
	// on is called at the start of every read, with its number from 1 on.
	on func(read int)
}

func newStore() *store {
	return &store{bucket: "b1", scopes: map[schemas.Scope]schemas.ScopeReading{}}
}

func (s *store) Read(_ context.Context, scopes []schemas.Scope) (schemas.Reading, error) {
	s.reads++
	if s.on != nil {
		s.on(s.reads)
	}
	r := schemas.Reading{Bucket: s.bucket}
	for _, scope := range scopes {
		read := s.scopes[scope]
		read.Scope = scope
		r.Scopes = append(r.Scopes, read)
	}
	return r, s.err
}

// set gives a scope a document of these entries, written as JSON.
func (s *store) set(t testing.TB, scope schemas.Scope, revision uint64, entries string) {
	t.Helper()
	doc, err := schemas.ParseDocument([]byte(`{"bellpull": 1, "entries": ` + entries + `}`))
	if err != nil {
		t.Fatal(err)
	}
	s.scopes[scope] = schemas.ScopeReading{Revision: revision, Document: doc}
}

func (s *store) fail(scope schemas.Scope, revision uint64, err error) {
	s.scopes[scope] = schemas.ScopeReading{Revision: revision, Err: err}
}

// site is a node with a store, a directory and a clock that stands still.
type site struct {
	t     testing.TB
	store *store
	cfg   factsource.Config
	now   time.Time
}

func newSite(t testing.TB) *site {
	s := &site{t: t, store: newStore(), now: time.Date(2026, 12, 1, 10, 0, 0, 0, time.UTC)}
	s.cfg = factsource.Config{
		Store: s.store, Scopes: []schemas.Scope{node, group, common}, State: []string{"*"}, Dir: t.TempDir(),
		Digester: schemas.NewDigester([schemas.DigestKeySize]byte{1, 2, 3}),
		Now:      func() time.Time { return s.now },
	}
	return s
}

// run collects a fact and records it, as the program does.
func (s *site) run() (fact map[string]any, warnings string) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 400*time.Millisecond)
	defer cancel()
	c := factsource.New(s.cfg).Collect(ctx)
	if err := c.Record(); err != nil {
		s.t.Fatalf("Record: %v", err)
	}
	return decode(s.t, c.Fact), strings.Join(c.Warnings, "\n")
}

// text is run's fact as it is printed.
func (s *site) text() string {
	s.t.Helper()
	c := factsource.New(s.cfg).Collect(context.Background())
	if err := c.Record(); err != nil {
		s.t.Fatalf("Record: %v", err)
	}
	return string(c.Fact)
}

// decode reads the output as JSON and returns the one fact's value.
func decode(t testing.TB, text []byte) map[string]any {
	t.Helper()
	var out map[string]map[string]any
	dec := json.NewDecoder(strings.NewReader(string(text)))
	dec.UseNumber()
	if err := dec.Decode(&out); err != nil {
		t.Fatalf("the output is no JSON: %v\n%s", err, text)
	}
	if len(out) != 1 || out["bellpull"] == nil || strings.Count(string(text), "\n") != 1 || !strings.HasSuffix(string(text), "\n") {
		t.Fatalf("the output is not one line with one fact bellpull: %q", text)
	}
	return out["bellpull"]
}

// want compares some members of a fact, each written as JSON; "" = the member is missing.
func want(t testing.TB, fact map[string]any, members map[string]string) {
	t.Helper()
	for name, text := range maps.All(members) {
		value, there := fact[name]
		got := ""
		if there {
			b, err := json.Marshal(value)
			if err != nil {
				t.Fatal(err)
			}
			got = string(b)
		}
		if got != text {
			t.Errorf("%s = %s, want %s", name, got, text)
		}
	}
}

func (s *site) snapshot() string {
	s.t.Helper()
	b, err := os.ReadFile(filepath.Join(s.cfg.Dir, "snapshot.json"))
	if err != nil {
		s.t.Fatal(err)
	}
	return string(b)
}

var errDown = fmt.Errorf("nats://127.0.0.1:4222: connection refused: %w", schemas.ErrUnavailable)
