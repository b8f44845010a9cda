package natskv_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/bellpull/bellpull/cmd/internal/natskv"
	"github.com/bellpull/bellpull/cmd/internal/natstest"
	"github.com/bellpull/bellpull/schemas"
)

func changes(t *testing.T, b *natskv.Bucket, scopes []schemas.Scope) <-chan schemas.Notice {
	t.Helper()
	notices, err := b.Changes(t.Context(), scopes)
	if err != nil {
		t.Fatal(err)
	}
	return notices
}

// next waits for a notice; it passes over Resyncs that f does not want.
func next(t *testing.T, notices <-chan schemas.Notice, what string, f func(schemas.Notice) bool) {
	t.Helper()
	timeout := time.After(15 * time.Second)
	for {
		select {
		case n, ok := <-notices:
			if !ok {
				t.Fatalf("the channel was closed, want %s", what)
			}
			if f(n) {
				return
			}
			if !n.Resync {
				t.Fatalf("notice %+v, want %s", n, what)
			}
		case <-timeout:
			t.Fatalf("no notice in 15 s, want %s", what)
		}
	}
}

func isResync(n schemas.Notice) bool { return n.Resync }

func is(scope schemas.Scope, revision uint64) func(schemas.Notice) bool {
	return func(n schemas.Notice) bool { return n == schemas.Notice{Scope: scope, Revision: revision} }
}

func connect(t *testing.T, cfg natskv.Config) *natskv.Bucket {
	t.Helper()
	b, err := natskv.Connect(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	return b
}

// learn does what readers do, and waits until it knows the scope's revision.
func learn(t *testing.T, b *natskv.Bucket, notices <-chan schemas.Notice, scope schemas.Scope, revision uint64) (taken int) {
	t.Helper()
	timeout := time.After(15 * time.Second)
	for {
		select {
		case n := <-notices:
			taken++
			if n.Scope == scope && n.Revision >= revision {
				return taken
			}
			if n.Resync && read(t, b, scope).Scopes[0].Revision >= revision {
				return taken
			}
		case <-timeout:
			t.Fatalf("revision %d of %s was not learned in 15 s", revision, scope)
		}
	}
}

func TestChanges(t *testing.T) {
	srv := natstest.Start(t)
	writer := natstest.Bucket(t, srv)
	b := connect(t, natskv.Config{Servers: []string{srv.URL()}})
	own := changes(t, b, []schemas.Scope{"node/web1.example.com", "common"})
	all := changes(t, b, nil)
	for _, when := range []string{"first", "when the subscription has settled"} {
		next(t, own, "a Resync "+when, isResync)
		next(t, all, "a Resync "+when, isResync)
	}

	put(t, writer, "node/web2.example.com", doc(`1`), 0)
	revision := put(t, writer, "node/web1.example.com", doc(`1`), 0)
	next(t, own, "the own scope, not another's", is("node/web1.example.com", revision))
	next(t, all, "the other scope", is("node/web2.example.com", revision-1))
	next(t, all, "the scope", is("node/web1.example.com", revision))

	// A key of another client.
	if _, err := natstest.Conn(t, srv).Request("$KV.desired.a~b", []byte("x"), 5*time.Second); err != nil {
		t.Fatal(err)
	}
	next(t, all, "a notice without a scope", is("", revision+1))

	if _, err := writer.Init(t.Context(), natskv.InitOptions{NewID: true}); err != nil {
		t.Fatal(err)
	}
	next(t, own, "a Resync for a new bucket id", isResync)
	next(t, all, "a Resync for a new bucket id", isResync)
}

// A fleet that connected at once does not read again at once.
func TestSecondResyncIsSpread(t *testing.T) {
	srv := natstest.Start(t)
	natstest.Bucket(t, srv)
	b := connect(t, natskv.Config{Servers: []string{srv.URL()}})
	const n = 32
	start := time.Now()
	second := make(chan time.Duration, n)
	for range n {
		notices := changes(t, b, []schemas.Scope{"common"})
		go func() {
			<-notices
			<-notices
			second <- time.Since(start)
		}()
	}
	first, last := time.Duration(0), time.Duration(0)
	timeout := time.After(time.Minute)
	for i := range n {
		select {
		case last = <-second:
		case <-timeout:
			t.Fatalf("%d of %d second Resyncs within a minute", i, n)
		}
		if i == 0 {
			first = last
		}
	}
	if first < 2*time.Second {
		t.Errorf("second Resync after %v, want none before a cluster knows of the subscription", first)
	}
	if last-first < 500*time.Millisecond {
		t.Errorf("the second Resyncs lie within %v, want them spread", last-first)
	}
}

// A daemon that starts before NATS, and outlives it.
func TestChangesComeBack(t *testing.T) {
	srv := natstest.Start(t)
	revision := put(t, natstest.Bucket(t, srv), "common", doc(`1`), 0)
	srv.Stop()
	start := time.Now()
	b := connect(t, natskv.Config{Servers: []string{srv.URL()}})
	wantTook(t, start, 0)
	notices := changes(t, b, []schemas.Scope{"common"})
	_, err := b.Read(within(t, 200*time.Millisecond), []schemas.Scope{"common"})
	wantError(t, err, schemas.ErrUnavailable, "not connected", "connection refused")

	for range 2 {
		srv.Restart()
		next(t, notices, "a Resync for the new connection", isResync)
		writer := natstest.Dial(t, natskv.Config{Servers: []string{srv.URL()}})
		revision = put(t, writer, "common", doc(`2`), revision)
		learn(t, b, notices, "common", revision)
		writer.Close()
	}
}

// A call that begins while the connection is away waits for it.
func TestCallsWaitForTheConnection(t *testing.T) {
	srv := natstest.Start(t)
	natstest.Bucket(t, srv)
	srv.Stop()
	b := connect(t, natskv.Config{Servers: []string{srv.URL()}})
	revisions := make(chan uint64, 1)
	go func() {
		revision, err := b.Put(within(t, 15*time.Second), "common", doc(`1`), 0)
		if err != nil {
			t.Errorf("put: %v", err)
		}
		revisions <- revision
	}()
	srv.Restart()
	if revision := <-revisions; revision != read(t, b, "common").Scopes[0].Revision {
		t.Errorf("put = revision %d, want the one that stands", revision)
	}
}

// A reader that takes nothing gets the newest of each scope, or one Resync.
func TestSlowReader(t *testing.T) {
	srv := natstest.Start(t)
	natstest.Bucket(t, srv)
	b := connect(t, natskv.Config{Servers: []string{srv.URL()}})
	nc := natstest.Conn(t, srv)
	write := func(scopes, times int) (last uint64) {
		for range times {
			for i := range scopes {
				scope := schemas.Scope(fmt.Sprintf("node/n%04d", i))
				if err := nc.Publish("$KV.desired."+scope.Key(), doc(`1`)); err != nil {
					t.Fatal(err)
				}
			}
		}
		eventually(t, "all is stored", func() bool {
			position, err := b.Position(t.Context())
			done := err == nil && position.Sequence == last
			last = position.Sequence
			return done
		})
		return last
	}
	notices := changes(t, b, nil)
	next(t, notices, "a Resync first", isResync)
	last := write(3, 500)
	if n := learn(t, b, notices, "node/n0002", last); n > 10 {
		t.Errorf("%d notices for 3 scopes, want them coalesced", n)
	}

	write(5000, 1)
	next(t, notices, "one Resync for what does not fit", func(n schemas.Notice) bool { return n.Resync })
}

func TestChangesEnd(t *testing.T) {
	srv := natstest.Start(t)
	natstest.Bucket(t, srv)
	wantClosed := func(t *testing.T, notices <-chan schemas.Notice) {
		t.Helper()
		timeout := time.After(10 * time.Second)
		for {
			select {
			case _, ok := <-notices:
				if !ok {
					return
				}
			case <-timeout:
				t.Fatal("the channel is not closed")
			}
		}
	}
	b := connect(t, natskv.Config{Servers: []string{srv.URL()}})
	ctx, cancel := context.WithCancel(t.Context())
	first, err := b.Changes(ctx, nil)
	if err != nil {
		t.Fatal(err)
	}
	second := changes(t, b, []schemas.Scope{"common"})
	cancel()
	wantClosed(t, first)
	eventually(t, "the first subscription is gone", func() bool {
		n, err := srv.Embedded().Subsz(&server.SubszOptions{Subscriptions: true, Test: "bellpull.changed.desired.x"})
		return err == nil && n.Total == 0
	})
	b.Close()
	wantClosed(t, second)
	if _, err := b.Changes(t.Context(), nil); err == nil {
		t.Error("a closed bucket gives changes")
	}
	b.Close() // once more does no harm
}

// A node hears its own scopes with its own permissions, and a refusal is told.
func TestRefusedSubscription(t *testing.T) {
	srv := natstest.Start(t, func(o *server.Options) {
		o.Users = []*server.User{
			{Username: "admin", Password: "a"},
			{Username: "web1", Password: "b", Permissions: nodePermissions("web1/example/com", "common")},
		}
	})
	url := func(user string) []string { return []string{"nats://" + user + "@" + srv.URL()[len("nats://"):]} }
	admin := natstest.Dial(t, natskv.Config{Servers: url("admin:a")})
	if _, err := admin.Init(t.Context(), natskv.InitOptions{}); err != nil {
		t.Fatal(err)
	}
	warned := make(chan string, 10)
	b := connect(t, natskv.Config{Servers: url("web1:b"), Node: "web1.example.com", Warn: func(msg string, args ...any) {
		warned <- fmt.Sprint(append([]any{msg}, args...)...)
	}})
	notices := changes(t, b, []schemas.Scope{"node/web1.example.com", "node/web2.example.com"})
	next(t, notices, "a Resync first", isResync)
	learn(t, b, notices, "node/web1.example.com", put(t, admin, "node/web1.example.com", doc(`1`), 0))
	select {
	case text := <-warned:
		if want := "bellpull.changed.desired.node.web2/example/com"; !strings.Contains(text, want) {
			t.Errorf("warning = %q, want it to name %s", text, want)
		}
	case <-time.After(10 * time.Second):
		t.Error("no warning about the refused subscription")
	}
}
