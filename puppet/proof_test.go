package puppet_test

import (
	"slices"
	"testing"
	"time"

	"github.com/bellpull/bellpull/puppet"
	"github.com/bellpull/bellpull/schemas"
)

// FACT-06 and others: without proof nothing is applied, and the reason is told.
func TestLoopUnproven(t *testing.T) {
	tests := []struct {
		name  string
		spoil func(n *node)
		log   []string
	}{
		{"no record of the fact", func(n *node) { n.agent.set(func(a *agent) { a.noFact = true }) }, []string{"not proven", "facter.conf"}},
		{"a record of another run", func(n *node) {
			n.agent.set(func(a *agent) { a.shown = func(s schemas.Shown) schemas.Shown { s.Run = "other"; return s } })
		}, []string{"not proven", "facter.conf"}},
		{"the class's file was skipped", func(n *node) { n.agent.set(func(a *agent) { a.skipped = true }) }, []string{"not proven", "compiled.json] was skipped"}},
		{"noop in puppet.conf", func(n *node) {
			n.agent.set(func(a *agent) { a.results = []puppet.Result{{Outcome: puppet.Unchanged, Noop: true}} })
		}, []string{"not proven", "was a preview only"}},
		{"the fact showed the last good state", func(n *node) {
			n.agent.set(func(a *agent) {
				a.shown = func(s schemas.Shown) schemas.Shown {
					s.Scopes[web] = schemas.ShownScope{Revision: 1, Entries: n.applied().Scopes[web].Entries}
					return s
				}
			})
		}, []string{"fact behind", "scope=group/web", "has=1", "needs=2"}},
		{"the server compiled from another bucket", func(n *node) {
			n.agent.set(func(a *agent) {
				a.server = newBucket()
				a.server.id = "b0"
				a.server.set(web, schemas.ScopeReading{Document: document(n.t, "fw=79")})
				a.server.set(web, schemas.ScopeReading{Document: document(n.t, "fw=80")})
			})
		}, []string{"server behind", "has bucket b0, needs b1"}},
		{"timed out", func(n *node) {
			n.agent.set(func(a *agent) {
				a.results = []puppet.Result{{Outcome: puppet.TimedOut, Reason: "took longer than watch.timeout"}}
			})
		}, []string{"not proven", "took longer"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, func(t *testing.T, n *node) {
				n.booked(web, "fw=80")
				tt.spoil(n)
				n.put(web, "fw=81")
				n.pass(3 * time.Second)
				n.wantRuns(1)
				if got := n.applied().Scopes[web].Entries["fw"]; got == n.digester.Entry(document(t, "fw=81").Entries["fw"]) {
					t.Error("booked without proof")
				}
				n.wantLog(tt.log...)
				n.pass(10 * time.Minute)
				if got := len(n.agent.orders); got < 2 || got > 7 {
					t.Errorf("%d runs in 10 minutes, want some, with backoff", got)
				}
			})
		})
	}
}

func TestLoopServerBehind(t *testing.T) {
	bubble(t, func(t *testing.T, n *node) {
		n.booked(web, "fw=80")
		n.agent.set(func(a *agent) { a.server = newBucket() }) // stays at the old state
		n.agent.server.set(web, n.store.scopes[web])
		begin := time.Now()
		n.put(web, "fw=81")
		n.pass(5 * time.Minute)
		n.wantLog("server behind", "scope=group/web", "has=1", "needs=2")
		took := n.agent.took
		want := []time.Duration{250 * time.Millisecond, took + 5*time.Second, took + 30*time.Second, took + time.Minute, took + 2*time.Minute}
		if got := n.gaps(begin); !slices.Equal(got, want) {
			t.Errorf("runs after %v, want %v", got, want)
		}
		n.agent.set(func(a *agent) { a.server = nil }) // it has caught up
		n.pass(5 * time.Minute)
		n.wantRuns(6)
		n.wantApplied(web, "fw")
	})
}

// The server compiled from something newer than the fact showed, and then the
// state was set back: the catalog has what is not wanted any more.
func TestLoopServerAheadOfFact(t *testing.T) {
	bubble(t, func(t *testing.T, n *node) {
		n.booked(web, "fw=80")
		n.put("common", "x=1") // for the run
		n.pass(250*time.Millisecond + 700*time.Millisecond)
		n.wantRuns(1)
		n.put(web, "fw=81") // between fact and compile
		n.pass(600 * time.Millisecond)
		n.put(web, "fw=80")
		n.pass(time.Hour)
		n.wantRuns(2)
		n.wantLog("fact behind", "scope=group/web")
	})
}

// A scope that the compile did not read is proven by the fact alone; so is all
// on a node without the class.
func TestLoopProofOfTheFactAlone(t *testing.T) {
	bubble(t, func(t *testing.T, n *node) {
		n.agent.set(func(a *agent) { a.class = false })
		n.booked(web, "fw=80")
	})
}

// Puppet's status knows nothing of it, the exit status is all there is.
func TestLoopExitProof(t *testing.T) {
	bubble(t, func(t *testing.T, n *node) {
		n.proof, n.agent.noFact, n.agent.class = puppet.ProofExit, true, false
		n.booked(web, "fw=80")
		n.put(web, "fw=81")
		n.pass(250*time.Millisecond + time.Second)
		n.put(web, "fw=82") // not what was handed over
		n.pass(time.Hour)
		n.wantRuns(2)
		n.wantApplied(web, "fw")
	})
}

func TestLoopExpiry(t *testing.T) {
	bubble(t, func(t *testing.T, n *node) {
		n.booked(web, "fw=80", "ban=1 ttl=1h") // 10 s have passed since
		begin := time.Now()
		n.restart() // the expiry is remembered, whether NATS is there or not
		n.store.fail(schemas.ErrUnavailable)
		n.pass(2 * time.Hour)
		n.wantRuns(1)
		n.store.fail(nil)
		want := time.Hour - 10*time.Second + 5*time.Second // skew
		if got := n.gaps(begin)[0]; got != want {
			t.Errorf("run after %v, want %v", got, want)
		}
	})
	bubble(t, func(t *testing.T, n *node) {
		n.booked(web, "fw=80", "ban=1 ttl=1h", "cap=1 ttl=2h")
		n.pass(time.Hour)
		n.wantRuns(1)
		n.wantApplied(web, "cap", "fw")
		n.pass(time.Hour)
		n.wantRuns(2)
		n.wantApplied(web, "fw")
		n.put(web, "fw=80") // a writer prunes what has expired
		n.pass(time.Hour)
		n.wantRuns(2)
	})
}

// A run that happens to drop an entry before its own run is due leaves nothing to do.
func TestLoopExpiryDuringOtherRun(t *testing.T) {
	bubble(t, func(t *testing.T, n *node) {
		n.booked(web, "fw=80", "ban=1 ttl=1m")
		n.pass(50*time.Second + 500*time.Millisecond)
		n.put("common", "x=1")
		n.pass(time.Hour)
		n.wantRuns(1)
		n.wantApplied(web, "fw")
	})
}

// An expired entry is owed a run until the compile has dropped it too.
func TestLoopExpiryServerClock(t *testing.T) {
	bubble(t, func(t *testing.T, n *node) {
		n.booked(web, "fw=80", "ban=1 ttl=1h")
		n.agent.set(func(a *agent) { a.late = 30 * time.Second })
		n.pass(time.Hour + time.Minute)
		n.wantLog("server behind", "scope=group/web", "still has ban")
		n.wantRuns(3) // after the skew, 5 s later, 30 s later
		n.wantApplied(web, "fw")
		n.pass(time.Hour)
		n.wantRuns(3)
	})
}

// An entry that expires before it was ever applied owes nothing.
func TestLoopExpiryOfNothing(t *testing.T) {
	bubble(t, func(t *testing.T, n *node) {
		n.agent.set(func(a *agent) { a.blocked = puppet.Blocked{Disabled: true} })
		n.start()
		n.put(web, "ban=1 ttl=1m")
		n.pass(2 * time.Minute)
		n.agent.set(func(a *agent) { a.blocked = puppet.Blocked{} })
		n.pass(time.Hour)
		n.wantRuns(0)
	})
}
