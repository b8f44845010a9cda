package puppet_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bellpull/bellpull/schemas"
)

// bucket is a store in a map.
type bucket struct {
	mu       sync.Mutex
	id       string
	revision uint64
	scopes   map[schemas.Scope]schemas.ScopeReading
	good     map[schemas.Scope]schemas.ScopeReading // the last that could be read
	err      error                                  // of the whole reading
	limit    schemas.Limit
	reads    int
}

func newBucket() *bucket {
	return &bucket{id: "b1", scopes: map[schemas.Scope]schemas.ScopeReading{}, good: map[schemas.Scope]schemas.ScopeReading{}}
}

func (b *bucket) Read(_ context.Context, scopes []schemas.Scope) (schemas.Reading, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.reads++
	if b.err != nil {
		return schemas.Reading{}, b.err
	}
	r := b.reading(b.scopes, scopes)
	r.Limit = b.limit
	return r, nil
}

func (b *bucket) fail(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.err = err
}

func (b *bucket) readings() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.reads
}

func (b *bucket) readable(scope schemas.Scope) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.scopes[scope].Err == nil
}

// lastGood is a reading by somebody who keeps the last good state, as the fact and
// the server's sync do.
func (b *bucket) lastGood(scopes []schemas.Scope) schemas.Reading {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.reading(b.good, scopes)
}

func (b *bucket) reading(from map[schemas.Scope]schemas.ScopeReading, scopes []schemas.Scope) schemas.Reading {
	r := schemas.Reading{Bucket: b.id, At: time.Now()}
	for _, scope := range scopes {
		s := from[scope]
		s.Scope = scope
		r.Scopes = append(r.Scopes, s)
	}
	return r
}

// document reads entries written as name=value; a value of "-" is none, and
// options stand after blanks: "fw=80 ttl=1h next noop tags=a,b splay=1m secret".
func document(t testing.TB, entries ...string) schemas.Document {
	t.Helper()
	doc := schemas.Document{Entries: map[string]schemas.Entry{}}
	for _, text := range entries {
		words := strings.Fields(text)
		name, value, _ := strings.Cut(words[0], "=")
		parsed, err := schemas.ParseValue([]byte(value))
		if err != nil {
			t.Fatal(err)
		}
		e := schemas.Entry{Value: parsed, Event: "event-of-" + name}
		for _, option := range words[1:] {
			option, value, _ := strings.Cut(option, "=")
			switch option {
			case "ttl":
				e.Expires = time.Now().Add(must(time.ParseDuration(value)))
			case "splay":
				e.Run.Splay = must(time.ParseDuration(value))
			case "next":
				e.Run.Trigger = schemas.TriggerNext
			case "noop":
				e.Run.Noop = true
			case "tags":
				e.Run.Tags = strings.Split(value, ",")
			case "secret":
				e.Sensitive = true
			default:
				t.Fatalf("unknown option %q", option)
			}
		}
		doc.Entries[name] = e
	}
	return doc
}

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

// set changes one scope of the bucket and returns the revision.
func (b *bucket) set(scope schemas.Scope, reading schemas.ScopeReading) uint64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.revision++
	reading.Revision = b.revision
	b.scopes[scope] = reading
	if reading.Err == nil {
		b.good[scope] = reading
	}
	return b.revision
}

// vanish makes a scope such that never had a document, and announces nothing.
func (b *bucket) vanish(scope schemas.Scope) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.scopes, scope)
}
