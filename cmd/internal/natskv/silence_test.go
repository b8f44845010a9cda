package natskv_test

import (
	"testing"
	"time"

	"github.com/bellpull/bellpull/cmd/internal/natskv"
	"github.com/bellpull/bellpull/cmd/internal/natstest"
	"github.com/bellpull/bellpull/schemas"
)

// A network that drops everything without a word, as a firewall does: shorter than
// two pings nothing is lost and nothing is read again; longer, the connection is
// left, and the new one tells to read everything.
func TestSilentNetwork(t *testing.T) {
	const ping = 500 * time.Millisecond
	s := natstest.Start(t)
	admin := natstest.Bucket(t, s)
	line := natstest.NewLine(t, s)
	b := connect(t, natskv.Config{Servers: []string{line.URL()}, Ping: ping})
	notices := changes(t, b, []schemas.Scope{"common"})
	next(t, notices, "the first resync", isResync)
	next(t, notices, "the second resync", isResync)

	line.Silence()
	revision, err := admin.Put(t.Context(), "common", []byte(`{"bellpull":1,"entries":{}}`), 0)
	if err != nil {
		t.Fatal(err)
	}
	line.Resume()
	if got := <-notices; got != (schemas.Notice{Scope: "common", Revision: revision}) {
		t.Errorf("notice %+v after a short silence, want the change alone", got)
	}

	line.Silence()
	if revision, err = admin.Put(t.Context(), "common", []byte(`{"bellpull":1,"entries":{"a":{"value":1}}}`), revision); err != nil {
		t.Fatal(err)
	}
	// Until the client has given the line up: it asks thrice and hears nothing.
	eventually(t, "the connection is left", func() bool {
		select {
		case n := <-notices:
			t.Errorf("notice %+v from a silent network", n)
		default:
		}
		return line.Left()
	})
	line.Resume()
	next(t, notices, "a resync", isResync)
	reading, err := b.Read(within(t, time.Minute), []schemas.Scope{"common"})
	if err != nil || reading.Scopes[0].Revision != revision {
		t.Errorf("%+v, %v after the silence, want revision %d", reading, err, revision)
	}
}

// A cluster that loses the server which announces changes, while one is made: it
// is heard of, by a notice or by a resync.
func TestChangesLeaderLost(t *testing.T) {
	if testing.Short() {
		t.Skip("a cluster takes a while: not in a short run")
	}
	servers := natstest.Cluster(t, 3)
	var urls []string
	for _, s := range servers {
		urls = append(urls, s.URL())
	}
	admin := connect(t, natskv.Config{Servers: urls})
	if _, err := admin.Init(within(t, time.Minute), natskv.InitOptions{Replicas: 3}); err != nil {
		t.Fatal(err)
	}
	leader := -1
	eventually(t, "a leader of the stream", func() bool {
		for i, s := range servers {
			if s.Embedded().JetStreamIsStreamLeader("$G", "KV_desired") {
				leader = i
			}
		}
		return leader >= 0
	})
	// The node is connected to another server.
	b := connect(t, natskv.Config{Servers: []string{urls[(leader+1)%3], urls[(leader+2)%3]}})
	notices := changes(t, b, []schemas.Scope{"common"})
	next(t, notices, "the first resync", isResync)
	put := make(chan uint64, 1)
	go func() {
		ctx := within(t, time.Minute)
		for ctx.Err() == nil {
			if revision, err := admin.Put(ctx, "common", []byte(`{"bellpull":1,"entries":{}}`), 0); err == nil {
				put <- revision
				return
			}
			if reading, err := admin.Read(ctx, []schemas.Scope{"common"}); err == nil && reading.Scopes[0].Revision > 0 {
				put <- reading.Scopes[0].Revision
				return
			}
		}
		put <- 0
	}()
	servers[leader].Stop()
	revision := <-put
	if revision == 0 {
		t.Fatal("nothing could be written within a minute")
	}
	// What a watcher does: read at each notice, and again a while after a loss.
	current := func() bool {
		reading, err := b.Read(within(t, 20*time.Second), []schemas.Scope{"common"})
		return err == nil && reading.Scopes[0].Err == nil && reading.Scopes[0].Revision >= revision
	}
	for deadline := time.After(time.Minute); !current(); {
		select {
		case <-notices:
		case <-time.After(time.Second): // the watcher reads again where a reading lacked something
		case <-deadline:
			t.Fatal("the change was not seen within a minute")
		}
	}
}
