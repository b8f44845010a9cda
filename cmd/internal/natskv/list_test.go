package natskv_test

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/bellpull/bellpull/cmd/internal/natskv"
	"github.com/bellpull/bellpull/cmd/internal/natstest"
	"github.com/bellpull/bellpull/schemas"
)

// foreign keys were written by other clients; no scope maps to them.
func foreign() []string { return []string{"a~b", "a=3Bb", "x..y", "ключ", "UPPER.*"} }

func writeForeign(t *testing.T, nc *nats.Conn) (written int) {
	t.Helper()
	for _, key := range foreign() {
		if _, err := nc.Request("$KV.desired."+key, []byte("x"), time.Second); err == nil {
			written++
		}
	}
	if written == 0 {
		t.Fatal("no foreign key could be written")
	}
	return written
}

// NATS-01: keys that are no scope's are shown, marked, and listing goes on.
func TestScopes(t *testing.T) {
	srv := natstest.Start(t)
	b := natstest.Bucket(t, srv)
	nc := natstest.Conn(t, srv)
	scopes := []schemas.Scope{"common", "group/web", "group/webservers-prod", "node/web1.example.com", "os::family", "a.b", "a/b"}
	revisions := make(map[schemas.Scope]uint64)
	for _, scope := range scopes {
		revisions[scope] = put(t, b, scope, doc(`1`), 0)
	}
	revisions["group/web"] = put(t, b, "group/web", doc(`2`), revisions["group/web"])
	written := writeForeign(t, nc)
	if _, err := nc.RequestMsg(&nats.Msg{Subject: "$KV.desired.group.old", Header: nats.Header{"KV-Operation": {"DEL"}}}, time.Second); err != nil {
		t.Fatal(err)
	}

	list := func(prefix string) map[schemas.Scope]natskv.ScopeInfo {
		t.Helper()
		infos, err := b.Scopes(t.Context(), prefix)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.IsSortedFunc(infos, func(a, b natskv.ScopeInfo) int { return strings.Compare(a.Key, b.Key) }) {
			t.Errorf("not sorted: %v", infos)
		}
		out := make(map[schemas.Scope]natskv.ScopeInfo)
		foreign := 0
		for _, info := range infos {
			if info.Foreign {
				foreign++
				if info.Scope != "" || info.Key == "" || info.Key == schemas.BucketKey {
					t.Errorf("foreign key = %+v", info)
				}
				continue
			}
			out[info.Scope] = info
		}
		if want := map[bool]int{true: written}[prefix == ""]; foreign != want {
			t.Errorf("%d foreign keys with prefix %q, want %d", foreign, prefix, want)
		}
		return out
	}
	all := list("")
	if len(all) != len(scopes)+1 {
		t.Errorf("%d scopes, want %d: %v", len(all), len(scopes)+1, all)
	}
	for _, scope := range scopes {
		info := all[scope]
		if info.Revision != revisions[scope] || info.Key != scope.Key() || info.Deleted || time.Since(info.Time) > time.Minute {
			t.Errorf("%s = %+v, want revision %d", scope, info, revisions[scope])
		}
	}
	if !all["group/old"].Deleted {
		t.Errorf("group/old = %+v, want it deleted", all["group/old"])
	}
	if got := list("group/web"); len(got) != 2 {
		t.Errorf("group/web... = %v, want two scopes", got)
	}
	if got := list("nothing"); len(got) != 0 {
		t.Errorf("nothing... = %v, want none", got)
	}
}

func TestAll(t *testing.T) {
	srv := natstest.Start(t)
	b := natstest.Bucket(t, srv)
	nc := natstest.Conn(t, srv)
	const documents = 3000
	for i := range documents {
		scope := schemas.Scope(fmt.Sprintf("node/n%d.example.com", i))
		if err := nc.Publish("$KV.desired."+scope.Key(), doc(fmt.Sprint(i))); err != nil {
			t.Fatal(err)
		}
	}
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
	writeForeign(t, nc)
	if _, err := nc.Request("$KV.desired.group.broken", []byte("x"), time.Second); err != nil {
		t.Fatal(err)
	}
	if _, err := nc.RequestMsg(&nats.Msg{Subject: "$KV.desired.group.old", Header: nats.Header{"KV-Operation": {"DEL"}}}, time.Second); err != nil {
		t.Fatal(err)
	}
	last := put(t, b, "common", doc(`1`), 0)

	got := make(map[schemas.Scope]schemas.ScopeReading)
	position, err := b.All(t.Context(), func(r schemas.ScopeReading) error {
		got[r.Scope] = r
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if position.Sequence != last || position.Bucket != read(t, b).Bucket || time.Since(position.At) > time.Minute {
		t.Errorf("position = %+v, want sequence %d", position, last)
	}
	if len(got) != documents+3 {
		t.Errorf("%d scopes, want %d", len(got), documents+3)
	}
	for i := range documents {
		scope := schemas.Scope(fmt.Sprintf("node/n%d.example.com", i))
		if r := got[scope]; r.Err != nil || r.Revision == 0 || r.Document.Entries["x"].Value != schemas.Value(fmt.Sprint(i)) {
			t.Fatalf("%s = %+v", scope, r)
		}
	}
	if r := got["group/broken"]; !errors.Is(r.Err, schemas.ErrInvalid) || r.Revision == 0 {
		t.Errorf("group/broken = %+v, want it invalid", r)
	}
	if r := got["group/old"]; !r.Deleted {
		t.Errorf("group/old = %+v, want it deleted", r)
	}
	if at, err := b.Position(t.Context()); err != nil || at.Sequence != last || at.Bucket != position.Bucket {
		t.Errorf("position = %+v, %v, want %+v", at, err, position)
	}

	stop := errors.New("enough")
	if _, err := b.All(t.Context(), func(schemas.ScopeReading) error { return stop }); !errors.Is(err, stop) || errors.Is(err, schemas.ErrUnavailable) {
		t.Errorf("error = %v, want the callback's alone", err)
	}
	// NATS-06: no consumer stays behind.
	stream, err := streams(t, srv).Stream(t.Context(), "KV_desired")
	if err != nil {
		t.Fatal(err)
	}
	if n := stream.CachedInfo().State.Consumers; n != 0 {
		t.Errorf("%d consumers are left", n)
	}
}

// A bucket of large bodies does not make the client too slow for the server.
func TestAllLargeDocuments(t *testing.T) {
	srv := natstest.Start(t)
	b := natstest.Bucket(t, srv)
	body := bytes.Repeat([]byte("x"), 700<<10) // no document, so that no time goes into parsing
	const documents = 120                      // 84 MB: more than a server holds back for one client
	for i := range documents {
		put(t, b, schemas.Scope(fmt.Sprintf("node/n%d", i)), body, 0)
	}
	n := 0
	if _, err := b.All(within(t, time.Minute), func(schemas.ScopeReading) error { n++; return nil }); err != nil || n != documents {
		t.Errorf("%d documents, %v, want %d", n, err, documents)
	}
}

func TestHistory(t *testing.T) {
	srv := natstest.Start(t)
	b := natstest.Bucket(t, srv)
	first := put(t, b, "group/web", doc(`1`), 0)
	other := put(t, b, "group/other", doc(`5`), 0)
	second := put(t, b, "group/web", []byte("not a document"), first)
	if _, err := natstest.Conn(t, srv).RequestMsg(&nats.Msg{Subject: "$KV.desired.group.web", Header: nats.Header{"KV-Operation": {"DEL"}}}, time.Second); err != nil {
		t.Fatal(err)
	}
	history, err := b.History(t.Context(), "group/web")
	if err != nil || len(history) != 3 {
		t.Fatalf("history = %+v, %v, want three", history, err)
	}
	want := []natskv.Revision{{Revision: first, Body: doc(`1`)}, {Revision: second, Body: []byte("not a document")}, {Revision: second + 1, Deleted: true}}
	for i, w := range want {
		if got := history[i]; got.Revision != w.Revision || string(got.Body) != string(w.Body) || got.Deleted != w.Deleted || time.Since(got.Time) > time.Minute {
			t.Errorf("history %d = %+v, want %+v", i, got, w)
		}
	}
	if got, err := b.History(t.Context(), "group/never"); err != nil || len(got) != 0 {
		t.Errorf("history of a scope without one = %v, %v", got, err)
	}

	at, err := b.At(t.Context(), "group/web", first)
	if err != nil || string(at.Body) != string(doc(`1`)) || at.Revision != first {
		t.Errorf("at = %+v, %v", at, err)
	}
	for name, revision := range map[string]uint64{"another scope's": other, "a future one": 1000, "none": 0} {
		_, err := b.At(t.Context(), "group/web", revision)
		if !errors.Is(err, schemas.ErrNotFound) {
			t.Errorf("%s: error = %v, want %v", name, err, schemas.ErrNotFound)
		}
	}
}

// Without the stream nothing is listed, and the operator hears what to do.
func TestListWithoutBucket(t *testing.T) {
	b := natstest.Dial(t, natskv.Config{Servers: []string{natstest.Start(t).URL()}})
	for name, call := range map[string]func() error{
		"scopes":   func() error { _, err := b.Scopes(t.Context(), ""); return err },
		"history":  func() error { _, err := b.History(t.Context(), "common"); return err },
		"position": func() error { _, err := b.Position(t.Context()); return err },
		"all": func() error {
			_, err := b.All(t.Context(), func(schemas.ScopeReading) error { return nil })
			return err
		},
	} {
		t.Run(name, func(t *testing.T) { wantError(t, call(), schemas.ErrUnavailable, "bellpull init") })
	}
}
