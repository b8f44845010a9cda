package natskv_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/bellpull/bellpull/cmd/internal/natskv"
	"github.com/bellpull/bellpull/cmd/internal/natstest"
	"github.com/bellpull/bellpull/schemas"
)

func TestPut(t *testing.T) {
	srv := natstest.Start(t)
	b := natstest.Bucket(t, srv)
	first := put(t, b, "group/web", doc(`1`), 0)
	second := put(t, b, "group/web", doc(`2`), first)
	if second <= first {
		t.Errorf("revisions %d, %d, want them to rise", first, second)
	}
	for name, expect := range map[string]uint64{"must not exist": 0, "an old revision": first, "a future one": second + 5} {
		_, err := b.Put(within(t, 5*time.Second), "group/web", doc(`3`), expect)
		if name == "must not exist" {
			wantError(t, err, schemas.ErrConflict, "group/web", fmt.Sprintf("revision %d", second))
		} else {
			wantError(t, err, schemas.ErrConflict, "group/web", fmt.Sprintf("revision %d, not %d", second, expect))
		}
	}
	if got := read(t, b, "group/web").Scopes[0]; got.Revision != second || got.Document.Entries["x"].Value != "2" {
		t.Errorf("read = %+v, want revision %d", got, second)
	}

	// NATS-04: create on a deleted key: its marker's revision is the one to expect.
	marker := &nats.Msg{Subject: "$KV.desired.group.web", Header: nats.Header{"KV-Operation": {"DEL"}}}
	if _, err := natstest.Conn(t, srv).RequestMsg(marker, 5*time.Second); err != nil {
		t.Fatal(err)
	}
	deleted := read(t, b, "group/web").Scopes[0]
	_, err := b.Put(within(t, 5*time.Second), "group/web", doc(`4`), 0)
	wantError(t, err, schemas.ErrConflict, fmt.Sprintf("revision %d", deleted.Revision))
	put(t, b, "group/web", doc(`4`), deleted.Revision)
}

func TestPutTooLarge(t *testing.T) {
	srv := natstest.Start(t, func(o *server.Options) { o.MaxPayload = 64 << 10 })
	b := natstest.Bucket(t, srv)
	before := messages(t, srv)
	_, err := b.Put(t.Context(), "common", doc(`"`+strings.Repeat("x", schemas.MaxDocument)+`"`), 0)
	wantError(t, err, schemas.ErrInvalid, "common", fmt.Sprint(schemas.MaxDocument))
	if after := messages(t, srv); after != before {
		t.Errorf("%d messages were sent, want none", after-before)
	}
	_, err = b.Put(t.Context(), "common", doc(`"`+strings.Repeat("x", 65<<10)+`"`), 0)
	wantError(t, err, schemas.ErrInvalid, "max_payload")
}

// messages is how many the server was sent.
func messages(t *testing.T, srv *natstest.Server) int64 {
	t.Helper()
	vars, err := srv.Embedded().Varz(nil)
	if err != nil {
		t.Fatal(err)
	}
	return vars.InMsgs
}

// An acknowledgement that is late or lost with its connection makes Put repeat
// itself, and the document is stored once.
func TestPutRepeated(t *testing.T) {
	for _, fault := range []string{"late", "lost"} {
		t.Run(fault, func(t *testing.T) {
			srv := natstest.Start(t)
			direct := natstest.Bucket(t, srv)
			line := natstest.NewLine(t, srv)
			b, err := natskv.Connect(t.Context(), natskv.Config{Servers: []string{line.URL()}, Timeout: 200 * time.Millisecond})
			if err != nil {
				t.Fatal(err)
			}
			defer b.Close()
			read(t, b, "common")

			line.Silence()
			type result struct {
				revision uint64
				err      error
			}
			results := make(chan result, 1)
			go func() {
				revision, err := b.Put(within(t, 20*time.Second), "common", doc(`1`), 0)
				results <- result{revision, err}
			}()
			time.Sleep(500 * time.Millisecond) // the first attempts are on the line
			if fault == "lost" {
				line.Cut()
			}
			line.Resume()
			got := <-results
			if got.err != nil {
				t.Fatalf("put: %v", got.err)
			}
			history, err := direct.History(t.Context(), "common")
			if err != nil || len(history) != 1 || history[0].Revision != got.revision {
				t.Errorf("history = %+v, %v, want the one revision %d", history, err, got.revision)
			}
		})
	}
}

// NATS-04: two writers that expect the same revision, round after round. One
// wins, the other hears which revision stands.
func TestCompareAndSet(t *testing.T) {
	const rounds = 200
	run := func(t *testing.T, writers []*natskv.Bucket) {
		var expect uint64
		for round := range rounds {
			revisions, errs := make([]uint64, len(writers)), make([]error, len(writers))
			var wg sync.WaitGroup
			for i, w := range writers {
				wg.Go(func() {
					ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
					defer cancel()
					revisions[i], errs[i] = w.Put(ctx, "common", doc(fmt.Sprint(i)), expect)
				})
			}
			wg.Wait()
			winner, loser := 0, 1
			if errs[0] != nil {
				winner, loser = 1, 0
			}
			if errs[winner] != nil || !errors.Is(errs[loser], schemas.ErrConflict) {
				t.Fatalf("round %d: %v and %v, want one winner and one conflict", round, errs[0], errs[1])
			}
			wantError(t, errs[loser], schemas.ErrConflict, fmt.Sprintf("revision %d", revisions[winner]))
			expect = revisions[winner]
			if round%50 == 0 {
				ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
				stands, err := writers[loser].At(ctx, "common", expect)
				cancel()
				if err != nil || string(stands.Body) != string(doc(fmt.Sprint(winner))) {
					t.Fatalf("round %d: %q, %v stands, want the winner's", round, stands.Body, err)
				}
			}
		}
	}
	t.Run("one replica", func(t *testing.T) {
		srv := natstest.Start(t)
		run(t, []*natskv.Bucket{natstest.Bucket(t, srv), natstest.Dial(t, natskv.Config{Servers: []string{srv.URL()}})})
	})
	t.Run("three replicas", func(t *testing.T) {
		servers := natstest.Cluster(t, 3)
		writers := []*natskv.Bucket{
			natstest.Dial(t, natskv.Config{Servers: []string{servers[0].URL()}}),
			natstest.Dial(t, natskv.Config{Servers: []string{servers[1].URL()}}),
		}
		if _, err := writers[0].Init(within(t, 20*time.Second), natskv.InitOptions{Replicas: 3}); err != nil {
			t.Fatal(err)
		}
		run(t, writers)
	})
}

// When the leader of the stream is gone, readers and writers wait for the next.
func TestLeaderLost(t *testing.T) {
	servers := natstest.Cluster(t, 3)
	var urls []string
	for _, s := range servers {
		urls = append(urls, s.URL())
	}
	admin := natstest.Dial(t, natskv.Config{Servers: urls[:1]})
	if _, err := admin.Init(within(t, 20*time.Second), natskv.InitOptions{Replicas: 3}); err != nil {
		t.Fatal(err)
	}
	first := put(t, admin, "common", doc(`1`), 0)
	b, err := natskv.Connect(t.Context(), natskv.Config{Servers: urls})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	leader := -1
	for i, s := range servers {
		if s.Embedded().JetStreamIsStreamLeader("$G", "KV_desired") {
			leader = i
		}
	}
	if leader < 0 {
		t.Fatal("the stream has no leader")
	}
	servers[leader].Stop()
	ctx := within(t, 30*time.Second)
	second, err := b.Put(ctx, "common", doc(`2`), first)
	if err != nil {
		t.Fatalf("put without the old leader: %v", err)
	}
	eventually(t, "the new document is read", func() bool {
		reading, err := b.Read(ctx, []schemas.Scope{"common"})
		return err == nil && reading.Scopes[0].Revision == second
	})
}
