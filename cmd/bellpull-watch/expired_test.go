package main

import (
	"errors"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/bellpull/bellpull/cmd/internal/natstest"
	"github.com/bellpull/bellpull/schemas"
)

// NATS-02: a key that ran out is a delete for the fact, Hiera and the command line,
// never "" or null: the lower level answers. The watcher makes one run of it.
func TestExpiredKey(t *testing.T) {
	const key = "$KV.desired.group.web"
	upper := []byte(`{"bellpull":1,"entries":{"fw":{"value":"upper"}}}`)
	for _, tt := range []struct {
		name      string
		configure func(*jetstream.StreamConfig)
		ttl       string      // of the key
		marker    nats.Header // what is published by hand to end it
	}{
		// With a history of one the server leaves the key its own time, however long markers last.
		{name: "the server's marker", ttl: "8s", configure: func(c *jetstream.StreamConfig) {
			c.DenyPurge, c.AllowRollup, c.AllowMsgTTL, c.SubjectDeleteMarkerTTL, c.MaxMsgsPerSubject = false, true, true, time.Hour, 1
		}},
		{name: "a marker by hand", marker: nats.Header{"Nats-Marker-Reason": {"MaxAge"}}, configure: func(*jetstream.StreamConfig) {}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t)
			server := natstest.Start(t)
			r.listen = strings.TrimPrefix(server.URL(), "nats://")
			r.at(server.URL())
			r.command("go", "build", "-o", r.dir, "../bellpull-fact", "../bellpull-hiera")
			nc := natstest.Conn(t, server)
			js, err := jetstream.New(nc)
			if err != nil {
				t.Fatal(err)
			}
			r.command(r.path("bellpull"), "init")
			// Init's stream has no markers, and NATS lets none be added: this one was made by hand.
			stream, err := js.Stream(t.Context(), "KV_desired")
			if err != nil {
				t.Fatal(err)
			}
			id, err := stream.GetLastMsgForSubject(t.Context(), "$KV.desired.=bucket")
			if err != nil {
				t.Fatal(err)
			}
			if err := js.DeleteStream(t.Context(), "KV_desired"); err != nil {
				t.Fatal(err)
			}
			cfg := stream.CachedInfo().Config
			tt.configure(&cfg)
			if _, err := js.CreateStream(t.Context(), cfg); err != nil {
				t.Fatal(err)
			}
			if _, err := js.Publish(t.Context(), id.Subject, id.Data); err != nil {
				t.Fatal(err)
			}
			r.put("common", `{"fw":{"value":"lower"}}`)
			r.start()
			m := &nats.Msg{Subject: key, Data: upper, Header: nats.Header{}}
			if tt.ttl != "" {
				m.Header.Set(jetstream.MsgTTLHeader, tt.ttl)
			}
			ack, err := js.PublishMsg(t.Context(), m)
			if err != nil {
				t.Fatal(err)
			}
			r.applied(ack.Sequence)
			runs := strings.Count(r.read("runs"), "\n")
			r.answers(t, "upper")

			if tt.marker != nil {
				if _, err := js.PublishMsg(t.Context(), &nats.Msg{Subject: key, Header: tt.marker}); err != nil {
					t.Fatal(err)
				}
			}
			r.until("the run of the end", r.logged("group/web: fw removed"))
			r.until("its booking", func() bool {
				a, err := schemas.ParseApplied([]byte(r.read("state/node/applied.json")))
				return err == nil && a.Scopes["group/web"].Revision > ack.Sequence && len(a.Scopes["group/web"].Entries) == 0
			})
			r.answers(t, "lower")
			r.quietly("nothing more", runs+1)
		})
	}
}

// answers checks what each reader says of fw, and the command line of group/web's.
func (r *rig) answers(t *testing.T, value string) {
	t.Helper()
	fact, err := exec.Command(r.path("bellpull-fact")).Output()
	if err != nil || !strings.Contains(string(fact), `"state": {"fw": "`+value+`"}`) {
		t.Errorf("fact %s, %v, want fw %s", fact, err, value)
	}
	hiera, err := exec.Command(r.path("bellpull-hiera"), "lookup", "fw").Output()
	if err != nil || string(hiera) != `"`+value+"\"\n" {
		t.Errorf("Hiera %s, %v, want %q", hiera, err, value)
	}
	out, err := exec.Command(r.path("bellpull"), "get", "group/web", "fw").Output()
	var exit *exec.ExitError
	if gone := errors.As(err, &exit) && exit.ExitCode() == 3 && len(out) == 0; gone != (value == "lower") {
		t.Errorf("bellpull get group/web fw: %s, %v", out, err)
	}
}
