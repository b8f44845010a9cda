package main

import (
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/bellpull/bellpull/cmd/internal/natstest"
)

// onLine makes a node that reaches its server by a line, and everybody else without.
func (r *rig) onLine(t *testing.T) (*natstest.Server, *natstest.Line) {
	t.Helper()
	s := natstest.Start(t)
	natstest.Bucket(t, s)
	line := natstest.NewLine(t, s)
	r.listen = strings.TrimPrefix(s.URL(), "nats://")
	r.at(line.URL())
	return s, line
}

// WATCH-01: this node alone is cut off, for as long as several attempts to come
// back take, and others put meanwhile: one run for the newest, within 10 s of the
// reconnect.
func TestCutOff(t *testing.T) {
	r := newRig(t)
	s, line := r.onLine(t)
	r.start()
	r.applied(r.put("group/web", `{"fw":{"value":1}}`))
	// What is read once more a while after a connect is not to hit the outage: a
	// reading that failed would be repeated, whether a reconnect is noticed or not.
	r.until("a settled connection", func() bool { return time.Since(connected(t, s, "bellpull-watch")) > 5*time.Second })

	line.Silence()
	line.Cut()
	r.put("group/web", `{"fw":{"value":2}}`)
	r.until("three attempts to come back", func() bool { return line.Tries() >= 3 })
	newest := r.put("group/web", `{"fw":{"value":3}}`)
	r.runs(1)
	line.Resume()
	r.applied(newest)
	booked := time.Now()
	if took := booked.Sub(connected(t, s, "bellpull-watch")); took > 10*time.Second {
		t.Errorf("booked %v after the reconnect, want 10 s at most", took.Round(time.Millisecond))
	}
	r.quietly("nothing more", 2)
}

// connected is when the client's connection was made.
func connected(t *testing.T, s *natstest.Server, name string) time.Time {
	t.Helper()
	all, err := s.Embedded().Connz(&server.ConnzOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range all.Conns {
		if c.Name == name {
			return c.Start
		}
	}
	t.Fatalf("no connection of %s", name)
	return time.Time{}
}
