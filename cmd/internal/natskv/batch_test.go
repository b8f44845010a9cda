package natskv_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/bellpull/bellpull/cmd/internal/natskv"
	"github.com/bellpull/bellpull/cmd/internal/natstest"
	"github.com/bellpull/bellpull/schemas"
)

func batch(n int, value string) []natskv.Put {
	puts := make([]natskv.Put, n)
	for i := range puts {
		puts[i] = natskv.Put{Scope: schemas.Scope(fmt.Sprintf("node/n%d.example.com", i)), Body: doc(value)}
	}
	return puts
}

// NATS-04: all or nothing, on one and on three replicas.
func TestPutAll(t *testing.T) {
	run := func(t *testing.T, b *natskv.Bucket) {
		puts := batch(natskv.MaxBatch, `1`)
		revisions, err := b.PutAll(t.Context(), puts)
		if err != nil {
			t.Fatal(err)
		}
		for _, i := range []int{0, 1, 500, natskv.MaxBatch - 1} {
			eventually(t, "the batch is read", func() bool {
				return read(t, b, puts[i].Scope).Scopes[0].Revision == revisions[i]
			})
		}
		// One that has moved stops all of them.
		moved := put(t, b, puts[700].Scope, doc(`2`), revisions[700])
		for i := range puts {
			puts[i].Expect, puts[i].Body = revisions[i], doc(`3`)
		}
		_, err = b.PutAll(t.Context(), puts)
		wantError(t, err, schemas.ErrConflict, string(puts[700].Scope), fmt.Sprintf("revision %d, not %d", moved, revisions[700]))
		if got := read(t, b, puts[0].Scope).Scopes[0]; got.Revision != revisions[0] {
			t.Errorf("%s is at revision %d, want %d: nothing stored", puts[0].Scope, got.Revision, revisions[0])
		}
		puts[700].Expect = moved
		if _, err = b.PutAll(t.Context(), puts); err != nil {
			t.Errorf("with the right revisions: %v", err)
		}
	}
	t.Run("one replica", func(t *testing.T) { run(t, natstest.Bucket(t, natstest.Start(t))) })
	t.Run("three replicas", func(t *testing.T) {
		servers := natstest.Cluster(t, 3)
		b := natstest.Dial(t, natskv.Config{Servers: []string{servers[0].URL()}})
		if _, err := b.Init(within(t, 30*time.Second), natskv.InitOptions{Replicas: 3}); err != nil {
			t.Fatal(err)
		}
		run(t, b)
	})
}

func TestPutAllRefused(t *testing.T) {
	b := natstest.Bucket(t, natstest.Start(t))
	if got, err := b.PutAll(t.Context(), nil); len(got) != 0 || err != nil {
		t.Errorf("no documents: %v, %v", got, err)
	}
	if got, err := b.PutAll(t.Context(), batch(1, `1`)); len(got) != 1 || err != nil {
		t.Errorf("one document: %v, %v", got, err)
	}
	var limit *natskv.BatchLimitError
	if _, err := b.PutAll(t.Context(), batch(natskv.MaxBatch+1, `1`)); !errors.As(err, &limit) || limit.Limit != natskv.MaxBatch {
		t.Errorf("too many: %v", err)
	}
	long := batch(3, `1`)
	long[1].Body = doc(`"` + strings.Repeat("x", schemas.MaxDocument) + `"`)
	_, err := b.PutAll(t.Context(), long)
	wantError(t, err, schemas.ErrInvalid, string(long[1].Scope))
}

// A server may take fewer, and smaller ones.
func TestPutAllServerLimits(t *testing.T) {
	b := natstest.Bucket(t, natstest.Start(t, func(o *server.Options) {
		o.JetStreamLimits.MaxBatchSize = 10
		o.MaxPayload = 64 << 10
	}))
	var limit *natskv.BatchLimitError
	if _, err := b.PutAll(t.Context(), batch(11, `1`)); !errors.As(err, &limit) || limit.Limit != 10 {
		t.Errorf("11 documents: %v, want a limit of 10", err)
	}
	if got := read(t, b, batch(1, `1`)[0].Scope).Scopes[0]; got.Revision != 0 {
		t.Errorf("revision %d stands, want nothing stored", got.Revision)
	}
	if _, err := b.PutAll(t.Context(), batch(10, `1`)); err != nil {
		t.Errorf("10 documents: %v", err)
	}
	long := batch(5, `1`)
	long[3].Body = doc(`"` + strings.Repeat("x", 65<<10) + `"`)
	_, err := b.PutAll(t.Context(), long)
	wantError(t, err, schemas.ErrInvalid, string(long[3].Scope), "max_payload")
}

// A publisher that may not write one of the scopes hears which, and nothing is stored.
func TestPutAllWithoutPermission(t *testing.T) {
	srv := natstest.Start(t, func(o *server.Options) {
		o.Users = []*server.User{
			{Username: "op", Password: "right"},
			{Username: "web", Password: "right", Permissions: &server.Permissions{
				Publish: &server.SubjectPermission{Deny: []string{"$KV.desired.node.n3/example/com"}},
			}},
		}
	})
	as := func(user string) *natskv.Bucket {
		return natstest.Dial(t, natskv.Config{Servers: []string{strings.Replace(srv.URL(), "://", "://"+user+":right@", 1)}})
	}
	op := as("op")
	if _, err := op.Init(within(t, 20*time.Second), natskv.InitOptions{}); err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	_, err := as("web").PutAll(t.Context(), batch(5, `1`))
	wantError(t, err, schemas.ErrUnavailable, "n3/example/com", "refused", "none is stored")
	if took := time.Since(start); took > 5*time.Second {
		t.Errorf("took %v, want an answer at once", took)
	}
	if got := read(t, op, batch(1, `1`)[0].Scope).Scopes[0]; got.Revision != 0 {
		t.Errorf("revision %d stands, want nothing stored", got.Revision)
	}
}

// Nobody says whether a batch is stored whose commit was sent: not stored is never claimed.
func TestPutAllUnanswered(t *testing.T) {
	srv := natstest.Start(t)
	natstest.Bucket(t, srv)
	line := natstest.NewLine(t, srv)
	b := natstest.Dial(t, natskv.Config{Servers: []string{line.URL()}})
	read(t, b, "common")
	line.Silence()
	_, err := b.PutAll(within(t, time.Second), batch(5, `1`))
	wantError(t, err, schemas.ErrUnavailable)
}
