package main

import (
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/bellpull/bellpull/cmd/internal/natstest"
	"github.com/bellpull/bellpull/schemas"
)

// NATS-06: a node makes no consumer at all, neither its watcher nor its fact. Who
// reads everything, as the command line does, has one for as long as that takes;
// if it is killed meanwhile the server drops it after a minute.
func TestConsumers(t *testing.T) {
	r := newRig(t)
	s, line := r.onLine(t)
	js, err := jetstream.New(natstest.Conn(t, s))
	if err != nil {
		t.Fatal(err)
	}
	consumers := func() (all []*jetstream.ConsumerInfo) {
		t.Helper()
		stream, err := js.Stream(t.Context(), "KV_desired")
		if err != nil {
			t.Fatal(err)
		}
		list := stream.ListConsumers(t.Context())
		for c := range list.Info() {
			all = append(all, c)
		}
		if list.Err() != nil {
			t.Fatal(list.Err())
		}
		return all
	}
	r.start()
	for i := range 3 { // by the fact in the run, too
		r.applied(r.put("group/web", fmt.Sprintf(`{"fw":{"value":%d}}`, i)))
		line.Cut()
	}
	if got := consumers(); len(got) != 0 {
		t.Errorf("%d consumers of a node, want none", len(got))
	}

	reader := natstest.Bucket(t, s)
	if _, err := reader.All(t.Context(), func(schemas.ScopeReading) error {
		all := consumers()
		if len(all) != 1 || all[0].Config.InactiveThreshold != time.Minute || all[0].Config.Durable != "" {
			t.Errorf("while all is read: %+v, want one that lasts a minute", all)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if got := consumers(); len(got) != 0 {
		t.Errorf("%d consumers after the reading, want none", len(got))
	}
}
