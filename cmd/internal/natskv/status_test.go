package natskv_test

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
	"github.com/bellpull/bellpull/schemas"
)

func reporter(t *testing.T, url, node string) *natskv.Reporter {
	t.Helper()
	b, err := natskv.Connect(t.Context(), natskv.Config{Servers: []string{url}, Node: node})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	r, err := b.Reporter()
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func state(node, why string) schemas.Status {
	return schemas.Status{Node: node, Why: why, State: schemas.NodeConverged, Scopes: map[schemas.Scope]schemas.StatusScope{"common": {Wanted: 1, Applied: 1}}}
}

// whys is what each node has reported: its Why.
func whys(t *testing.T, b *natskv.Bucket) map[string]string {
	t.Helper()
	all, err := b.Statuses(within(t, time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for _, s := range all {
		out[s.Node] = s.Status.Why
		if s.Err != nil {
			out[s.Node] = s.Err.Error()
		}
		if time.Since(s.Time) > time.Hour {
			t.Errorf("%s was heard of at %v", s.Node, s.Time)
		}
	}
	return out
}

// The newest report of each node stands, however many came before it, and one
// that is made while NATS is away is sent when it is back.
func TestReporter(t *testing.T) {
	s := natstest.Start(t)
	admin := natstest.Bucket(t, s)
	web1 := reporter(t, s.URL(), "web1.example.com")
	defer web1.Close()
	web2 := reporter(t, s.URL(), "web2.example.com")
	for i := range 100 {
		web1.Report(state("web1.example.com", fmt.Sprint(i)))
	}
	web2.Report(state("web2.example.com", "unsent"))
	web2.Close()
	eventually(t, "reports", func() bool {
		got := whys(t, admin)
		return got["web1.example.com"] == "99" && got["web2.example.com"] == "unsent"
	})
	s.Stop()
	web1.Report(state("web1.example.com", "while NATS was away"))
	web1.Report(state("web1.example.com", "the last before it was back"))
	s.Restart()
	eventually(t, "report after the outage", func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		b, err := natskv.Dial(ctx, natskv.Config{Servers: []string{s.URL()}})
		if err != nil {
			return false
		}
		defer b.Close()
		return whys(t, b)["web1.example.com"] == "the last before it was back"
	})
}

// A hundred reports at once are a few messages.
func TestReporterSendsSeldom(t *testing.T) {
	s := natstest.Start(t)
	natstest.Bucket(t, s)
	seen := make(chan *nats.Msg, 1000)
	if _, err := natstest.Conn(t, s).ChanSubscribe("bellpull.status.desired.web1/example/com", seen); err != nil {
		t.Fatal(err)
	}
	r := reporter(t, s.URL(), "web1.example.com")
	for begin, i := time.Now(), 0; time.Since(begin) < 500*time.Millisecond; i++ {
		r.Report(state("web1.example.com", fmt.Sprint(i)))
	}
	r.Close()
	if got := len(seen); got < 1 || got > 3 {
		t.Errorf("%d messages in half a second, want one at once and one at the end", got)
	}
}

func TestStatusChanges(t *testing.T) {
	s := natstest.Start(t)
	natstest.Bucket(t, s)
	b, err := natskv.Connect(t.Context(), natskv.Config{Servers: []string{s.URL()}})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	changes, err := b.StatusChanges(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if first := <-changes; first.Node != "" {
		t.Errorf("first %+v, want that all is to be read", first)
	}
	r := reporter(t, s.URL(), "web1.example.com")
	defer r.Close()
	r.Report(state("web1.example.com", "x"))
	if got := <-changes; got.Node != "web1.example.com" || got.Status.Why != "x" {
		t.Errorf("%+v, want web1's status", got)
	}
	s.Restart()
	if got := <-changes; got.Node != "" {
		t.Errorf("%+v after a new connection, want that all is to be read", got)
	}
}

func TestForgetStatus(t *testing.T) {
	s := natstest.Start(t)
	admin := natstest.Bucket(t, s)
	r := reporter(t, s.URL(), "web1.example.com")
	defer r.Close()
	if err := admin.ForgetStatus(within(t, time.Minute), "web1.example.com"); !errors.Is(err, schemas.ErrNotFound) {
		t.Errorf("forget a node that never reported: %v, want not found", err)
	}
	r.Report(state("web1.example.com", "x"))
	eventually(t, "report", func() bool { return len(whys(t, admin)) == 1 })
	if err := admin.ForgetStatus(within(t, time.Minute), "web1.example.com"); err != nil {
		t.Fatal(err)
	}
	if got := whys(t, admin); len(got) != 0 {
		t.Errorf("%v after it was forgotten", got)
	}
	r.Report(state("web1.example.com", "back"))
	eventually(t, "report again", func() bool { return whys(t, admin)["web1.example.com"] == "back" })
}

// What a stranger writes is that node's trouble alone, and no rollup is taken.
func TestForeignStatus(t *testing.T) {
	s := natstest.Start(t)
	admin := natstest.Bucket(t, s)
	nc := natstest.Conn(t, s)
	for subject, body := range map[string]string{
		"web1/example/com": `{"node":"web1.example.com","why":"fine"}`, "web2/example/com": "no JSON", "web3/example/com": `{"node":"web1.example.com"}`, "a.b": `{}`, "*": "x",
	} {
		if err := nc.Publish("bellpull.status.desired."+subject, []byte(body)); err != nil {
			t.Fatal(err)
		}
	}
	m := nats.NewMsg("bellpull.status.desired.web1/example/com")
	m.Header.Set("Nats-Rollup", "all")
	reply, err := nc.RequestMsg(m, 20*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(reply.Data), "rollup not permitted") {
		t.Errorf("rollup: %s", reply.Data)
	}
	got := whys(t, admin)
	if got["web1.example.com"] != "fine" || !strings.Contains(got["web2.example.com"], "is damaged") || !strings.Contains(got["web3.example.com"], "it says to be") || len(got) != 3 {
		t.Errorf("%q", got)
	}
}
