package publish_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/bellpull/bellpull/cmd/internal/natskv"
	"github.com/bellpull/bellpull/cmd/internal/natstest"
	"github.com/bellpull/bellpull/cmd/internal/publish"
	"github.com/bellpull/bellpull/schemas"
	"github.com/bellpull/bellpull/schemas/kinds"
)

func newPublisher(t testing.TB, bucket publish.Bucket) *publish.Publisher {
	t.Helper()
	set, err := kinds.Load("")
	if err != nil {
		t.Fatal(err)
	}
	return publish.New(publish.Config{Bucket: bucket, Kinds: set})
}

// set is a timeless event.
func set(id, entry string, value schemas.Value) schemas.Event {
	return schemas.Event{ID: id, Source: "test", Scope: "group/web", Entry: entry, Action: schemas.ActionSet, Value: value}
}

func remove(id, entry string) schemas.Event {
	return schemas.Event{ID: id, Source: "test", Scope: "group/web", Entry: entry, Action: schemas.ActionRemove}
}

func publishOK(t *testing.T, p *publish.Publisher, ev schemas.Event, opts publish.Options) publish.Result {
	t.Helper()
	result, err := p.Publish(t.Context(), ev, opts)
	if err != nil {
		t.Fatalf("publish %s: %v", ev.ID, err)
	}
	return result
}

func standing(t testing.TB, b publish.Bucket) schemas.ScopeReading {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	reading, err := b.Read(ctx, []schemas.Scope{"group/web"})
	if err != nil {
		t.Fatal(err)
	}
	return reading.Scopes[0]
}

func wantError(t *testing.T, err, kind error, words ...string) {
	t.Helper()
	if !errors.Is(err, kind) {
		t.Fatalf("error = %v, want one that is %q", err, kind)
	}
	for _, word := range words {
		if !strings.Contains(err.Error(), word) {
			t.Errorf("error = %q, want it to say %q", err, word)
		}
	}
}

func TestPublish(t *testing.T) {
	b := natstest.Bucket(t, natstest.Start(t))
	p := newPublisher(t, b)

	first := publishOK(t, p, set("1", "x", "1"), publish.Options{})
	if !first.Changed || first.Superseded || first.Time.IsZero() || first.Revision == 0 {
		t.Errorf("first = %+v, want a change", first)
	}
	if got := publishOK(t, p, set("1", "x", "1"), publish.Options{}); got.Changed || got.Revision != first.Revision || !got.Time.Equal(first.Time) {
		t.Errorf("the same again = %+v, want no change and revision %d", got, first.Revision)
	}
	_, err := p.Publish(t.Context(), set("1", "x", "2"), publish.Options{})
	wantError(t, err, schemas.ErrConflict, "other content")

	late := set("0", "x", "0")
	late.Time = first.Time.Add(-time.Hour)
	if got := publishOK(t, p, late, publish.Options{}); got.Changed || !got.Superseded || got.Revision != first.Revision {
		t.Errorf("a late event = %+v, want it superseded at revision %d", got, first.Revision)
	}
	second := publishOK(t, p, remove("2", "x"), publish.Options{MustExist: true})
	if !second.Changed || second.Revision <= first.Revision {
		t.Errorf("removal = %+v, want a change after revision %d", second, first.Revision)
	}
	if got := standing(t, b); got.Revision != second.Revision || len(got.Document.Entries) != 0 || got.Document.Removed["x"].Event != "2" {
		t.Errorf("standing = %+v", got)
	}
}

func TestConditions(t *testing.T) {
	b := natstest.Bucket(t, natstest.Start(t))
	p := newPublisher(t, b)
	at := func(n uint64) publish.Options { return publish.Options{IfRevision: &n} }

	_, err := p.Publish(t.Context(), remove("1", "x"), publish.Options{MustExist: true})
	wantError(t, err, schemas.ErrNotFound, "group/web", `"x"`)
	_, err = p.Publish(t.Context(), set("1", "x", "1"), at(7))
	wantError(t, err, schemas.ErrConflict, "revision 0, not 7")
	if got := publishOK(t, p, set("1", "x", "1"), publish.Options{DryRun: true}); !got.Changed || got.Revision != 0 {
		t.Errorf("dry run = %+v, want a change at revision 0", got)
	}
	if got := standing(t, b); got.Revision != 0 {
		t.Fatalf("revision %d stands, want nothing written so far", got.Revision)
	}

	first := publishOK(t, p, set("1", "x", "1"), at(0))
	_, err = p.Publish(t.Context(), set("2", "x", "2"), at(0))
	wantError(t, err, schemas.ErrConflict, fmt.Sprintf("revision %d, not 0", first.Revision))
	publishOK(t, p, set("2", "x", "2"), at(first.Revision))

	expired := set("3", "y", "3")
	expired.Time, expired.TTL = time.Now().Add(-time.Minute), time.Second
	publishOK(t, p, expired, publish.Options{})
	_, err = p.Publish(t.Context(), remove("4", "y"), publish.Options{MustExist: true})
	wantError(t, err, schemas.ErrNotFound, `"y"`)
}

// What is invalid is refused before anything is sent.
func TestInvalid(t *testing.T) {
	p := newPublisher(t, noBucket{t})
	future := set("1", "x", "1")
	future.Time = time.Now().Add(time.Hour)
	wrongKind := set("1", "rule", `{"port":22,"protocol":"tcp","action":"allow"}`)
	wrongKind.Kind = "firewall_rule"
	unknownKind := set("1", "x", "1")
	unknownKind.Kind = "no_such_kind"
	tests := []struct {
		name string
		ev   schemas.Event
		want []string
	}{
		{"no id", set("", "x", "1"), []string{"/id"}},
		{"no entry name", set("1", "", "1"), []string{"/entry"}},
		{"kind", wrongKind, []string{"/port"}},
		{"unknown kind", unknownKind, []string{"no_such_kind", "firewall_rule"}},
		{"a value of 1 MB", set("1", "x", schemas.Value(`"`+strings.Repeat("x", 1<<20)+`"`)), []string{"/value"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := p.Publish(t.Context(), tt.ev, publish.Options{})
			wantError(t, err, schemas.ErrInvalid, tt.want...)
		})
	}
	t.Run("future", func(t *testing.T) {
		_, err := newPublisher(t, natstest.Bucket(t, natstest.Start(t))).Publish(t.Context(), future, publish.Options{})
		wantError(t, err, schemas.ErrInvalid, "/time")
	})
}

// noBucket fails the test when it is asked anything.
type noBucket struct{ t *testing.T }

func (b noBucket) Read(context.Context, []schemas.Scope) (schemas.Reading, error) {
	b.t.Error("the bucket was read")
	return schemas.Reading{}, schemas.ErrUnavailable
}

func (b noBucket) Put(context.Context, schemas.Scope, []byte, uint64) (uint64, error) {
	b.t.Error("the bucket was written")
	return 0, schemas.ErrUnavailable
}

func TestStandingBodyIsNoDocument(t *testing.T) {
	srv := natstest.Start(t)
	p := newPublisher(t, natstest.Bucket(t, srv))
	if _, err := natstest.Conn(t, srv).Request("$KV.desired.group.web", []byte("hello"), 5*time.Second); err != nil {
		t.Fatal(err)
	}
	_, err := p.Publish(t.Context(), set("1", "x", "1"), publish.Options{})
	wantError(t, err, schemas.ErrConflict, "group/web", "revision 2", "bellpull rollback group/web --to N")
}

// A marker stands for superseded_before, which the next document carries.
func TestAfterADeletion(t *testing.T) {
	srv := natstest.Start(t)
	b := natstest.Bucket(t, srv)
	p := newPublisher(t, b)
	publishOK(t, p, set("1", "x", "1"), publish.Options{})
	marker := &nats.Msg{Subject: "$KV.desired.group.web", Header: nats.Header{"KV-Operation": {"DEL"}}}
	if _, err := natstest.Conn(t, srv).RequestMsg(marker, 5*time.Second); err != nil {
		t.Fatal(err)
	}
	deleted := standing(t, b)
	late := set("2", "x", "2")
	late.Time = deleted.Time.Add(-time.Second)
	if got := publishOK(t, p, late, publish.Options{}); !got.Superseded {
		t.Errorf("an event from before the deletion = %+v, want it superseded", got)
	}
	if got := publishOK(t, p, set("3", "x", "3"), publish.Options{}); !got.Changed {
		t.Errorf("a new event = %+v, want a change", got)
	}
	if got := standing(t, b); !got.Document.SupersededBefore.Equal(deleted.Time) {
		t.Errorf("superseded before %v, want %v", got.Document.SupersededBefore, deleted.Time)
	}
}

func TestUnavailable(t *testing.T) {
	t.Run("no bucket", func(t *testing.T) {
		b := natstest.Dial(t, natskv.Config{Servers: []string{natstest.Start(t).URL()}})
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		defer cancel()
		_, err := newPublisher(t, b).Publish(ctx, set("1", "x", "1"), publish.Options{})
		wantError(t, err, schemas.ErrUnavailable)
	})
	t.Run("no id", func(t *testing.T) {
		srv := natstest.Start(t)
		b := natstest.Bucket(t, srv)
		marker := &nats.Msg{Subject: "$KV.desired.=bucket", Header: nats.Header{"KV-Operation": {"DEL"}}}
		if _, err := natstest.Conn(t, srv).RequestMsg(marker, 5*time.Second); err != nil {
			t.Fatal(err)
		}
		_, err := newPublisher(t, b).Publish(t.Context(), set("1", "x", "1"), publish.Options{})
		wantError(t, err, schemas.ErrUnavailable, "bellpull init")
	})
	t.Run("the deadline holds although the bucket hangs", func(t *testing.T) {
		hold := make(chan struct{})
		defer close(hold)
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		start := time.Now()
		_, err := newPublisher(t, &gate{Bucket: raced{}, hold: hold}).Publish(ctx, set("1", "x", "1"), publish.Options{})
		wantError(t, err, schemas.ErrUnavailable, "not known")
		if took := time.Since(start); took > time.Second {
			t.Errorf("took %v, want 100 ms", took)
		}
	})
}
