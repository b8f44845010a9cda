package natskv_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/bellpull/bellpull/cmd/internal/natskv"
	"github.com/bellpull/bellpull/cmd/internal/natstest"
	"github.com/bellpull/bellpull/schemas"
)

// NATS-06: watchers whose server flaps leave no consumer behind, because they make
// none: the one of the permits is all that there is.
func TestReconnectStormLeavesNoConsumer(t *testing.T) {
	s := natstest.Start(t)
	natstest.Bucket(t, s)
	const watchers = 30
	resynced := make(chan int, 100*watchers)
	for i := range watchers {
		node := fmt.Sprintf("n%d.example.com", i)
		b := connect(t, natskv.Config{Servers: []string{s.URL()}, Node: node})
		scopes := []schemas.Scope{schemas.Scope("node/" + node), "common"}
		notices := changes(t, b, scopes)
		r, err := b.Reporter()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(r.Close)
		go func() {
			for range notices {
				if _, err := b.ReadNode(t.Context(), scopes); err == nil {
					r.Report(state(node, time.Now().String()))
					resynced <- i
				}
			}
		}()
	}
	all := func(what string) {
		t.Helper()
		seen, deadline := map[int]bool{}, time.After(time.Minute)
		for len(seen) < watchers {
			select {
			case i := <-resynced:
				seen[i] = true
			case <-deadline:
				t.Fatalf("%s: %d of %d watchers have read within a minute", what, len(seen), watchers)
			}
		}
	}
	all("at first")
	for range 3 {
		s.Restart()
		for len(resynced) > 0 {
			<-resynced
		}
		all("after a restart")
	}
	js, err := jetstream.New(natstest.Conn(t, s))
	if err != nil {
		t.Fatal(err)
	}
	for stream, want := range map[string]int{"KV_desired": 0, "BELLPULL_STATUS_desired": 0, "BELLPULL_PERMITS_desired": 1} {
		info, err := js.Stream(t.Context(), stream)
		if err != nil {
			t.Fatal(err)
		}
		if got := info.CachedInfo().State.Consumers; got != want {
			t.Errorf("%s has %d consumers, want %d", stream, got, want)
		}
	}
}
