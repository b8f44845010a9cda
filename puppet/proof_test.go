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
		{"no record of the fact", func(n *node) { n.agent.noFact = true }, []string{"not proven", "facter.conf"}},
		{"a record of another run", func(n *node) {
			n.agent.shown = func(s schemas.Shown) schemas.Shown { s.Run = "other"; return s }
		}, []string{"not proven", "facter.conf"}},
		{"the class's file was skipped", func(n *node) { n.agent.skipped = true }, []string{"not proven", "compiled.json] was skipped"}},
		{"noop in puppet.conf", func(n *node) {
			n.agent.results = []puppet.Result{{Outcome: puppet.Unchanged, Noop: true}}
		}, []string{"not proven", "noop is set in puppet.conf"}},
		{"the fact showed the last good state", func(n *node) {
			n.agent.shown = func(s schemas.Shown) schemas.Shown {
				s.Scopes[web] = schemas.ShownScope{Revision: 1, Entries: n.applied().Scopes[web].Entries}
				return s
			}
		}, []string{"fact behind", "scope=group/web", "has=1", "needs=2"}},
		{"timed out", func(n *node) {
			n.agent.results = []puppet.Result{{Outcome: puppet.TimedOut, Reason: "took longer than watch.timeout"}}
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
		n.agent.server = newBucket() // stays at the old state
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
		n.agent.server = nil // it has caught up
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
		n.agent.class = false
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
		n.store.err = schemas.ErrUnavailable
		n.pass(2 * time.Hour)
		n.wantRuns(1)
		n.store.err = nil
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

// An expired entry is owed a run until the compile has dropped it too.
func TestLoopExpiryServerClock(t *testing.T) {
	bubble(t, func(t *testing.T, n *node) {
		n.booked(web, "fw=80", "ban=1 ttl=1h")
		n.serverLate = 30 * time.Second
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
		n.agent.blocked = puppet.Blocked{Disabled: true}
		n.start()
		n.put(web, "ban=1 ttl=1m")
		n.pass(2 * time.Minute)
		n.agent.mu.Lock()
		n.agent.blocked = puppet.Blocked{}
		n.agent.mu.Unlock()
		n.pass(time.Hour)
		n.wantRuns(0)
	})
}

func TestLoopTriggerNext(t *testing.T) {
	bubble(t, func(t *testing.T, n *node) {
		n.booked(web, "fw=80")
		n.put(web, "fw=80", "pool=1 next")
		n.pass(24 * time.Hour)
		n.wantRuns(0)
		n.wantApplied(web, "fw")
		n.put(web, "fw=81", "pool=1 next")
		n.pass(time.Minute)
		n.wantRuns(1)
		n.wantApplied(web, "fw", "pool")
	})
}

func TestLoopTags(t *testing.T) {
	bubble(t, func(t *testing.T, n *node) {
		n.booked(web, "fw=80")
		n.agent.matched = []string{"app", "web"}
		n.put(web, "fw=80", "pool=1 tags=app", "site=1 tags=web,site", "later=1 next")
		n.pass(time.Minute)
		n.wantRuns(1)
		if got, want := n.agent.orders[0].Tags, []string{"app", "site", "web"}; !slices.Equal(got, want) {
			t.Errorf("tags %q, want %q", got, want)
		}
		n.wantApplied(web, "fw", "pool", "site") // and not later, which was shown but is not of these tags
		n.put(web, "fw=81", "pool=2 tags=app", "site=1 tags=web,site", "later=1 next")
		n.pass(time.Minute)
		n.wantRuns(2)
		if got := n.agent.orders[1].Tags; got != nil {
			t.Errorf("tags %q, want a whole run: no tags beats tags", got)
		}
		n.wantApplied(web, "fw", "later", "pool", "site")
	})
}

// A run limited to tags that match nothing ends with success and is no proof.
func TestLoopTagsThatMatchNothing(t *testing.T) {
	bubble(t, func(t *testing.T, n *node) {
		n.booked(web, "fw=80")
		n.put(web, "fw=80", "pool=1 tags=nosuch")
		n.pass(3 * time.Second)
		n.wantRuns(1)
		n.wantApplied(web, "fw")
		n.wantLog("not proven", "nosuch")
		n.pass(10 * time.Minute)
		if got := len(n.agent.orders); got > 6 {
			t.Errorf("%d runs in 10 minutes", got)
		}
	})
}

func TestLoopNoop(t *testing.T) {
	bubble(t, func(t *testing.T, n *node) {
		n.booked(web, "fw=80")
		n.put(web, "fw=80", "pool=1 noop")
		n.pass(time.Hour)
		n.wantRuns(1)
		if !n.agent.orders[0].Noop {
			t.Error("not a preview")
		}
		n.wantApplied(web, "fw")
		if got := n.applied().Scopes[web].Previewed; len(got) != 1 || got["pool"] == "" {
			t.Errorf("previewed %v, want pool", got)
		}
		n.restart()
		n.pass(time.Hour)
		n.wantRuns(1)
		n.put(web, "fw=80", "pool=2 noop", "x=1 noop") // another value: previewed anew
		n.pass(time.Hour)
		n.wantRuns(2)
		n.put(web, "fw=81", "pool=3 noop", "x=1 noop")
		n.pass(time.Hour)
		n.wantRuns(3)
		if n.agent.orders[2].Noop {
			t.Error("a preview, though not all asked for one")
		}
		n.wantApplied(web, "fw", "pool", "x")
		n.put(web, "fw=81", "pool=4 noop", "x=1 noop")
		n.pass(time.Hour)
		n.put(web, "fw=81", "pool=4", "x=1 noop") // the same, now in earnest
		n.pass(time.Hour)
		n.wantRuns(5)
		n.wantApplied(web, "fw", "pool", "x")
	})
}

func TestLoopSplay(t *testing.T) {
	bubble(t, func(t *testing.T, n *node) {
		n.timing.Splay = time.Hour
		n.booked0()
		begin := time.Now()
		n.put(web, "fw=80")
		n.pass(time.Hour)
		n.wantRuns(1)
		first := n.gaps(begin)[0]
		if first < time.Second {
			t.Errorf("run after %v: no splay to speak of", first)
		}
		n.wantLog("waiting", "splay: group/web: fw new")

		begin, n.agent.orders, n.agent.starts = time.Now(), nil, nil
		n.put(web, "fw=80", "pool=1 splay=1ms") // the shortest splay wins
		n.pass(time.Second)
		n.put(web, "fw=80", "pool=2 splay=1ms", "slow=1")
		n.pass(time.Minute)
		n.wantRuns(2)
	})
}

// The same node and event wait equally long, whatever happens in between.
func TestLoopSplayIsNotRolledAgain(t *testing.T) {
	delay := func(disturb func(n *node)) (d time.Duration) {
		bubble(t, func(t *testing.T, n *node) {
			n.timing.Splay = time.Hour
			n.booked0()
			begin := time.Now()
			n.put(web, "fw=80")
			disturb(n)
			n.pass(2 * time.Hour)
			n.wantRuns(1)
			d = n.gaps(begin)[0]
		})
		return d
	}
	calm := delay(func(*node) {})
	disturbed := delay(func(n *node) {
		for range 5 {
			n.pass(time.Second)
			n.notices <- schemas.Notice{Resync: true}
			n.put("common") // an empty document: nothing to run for
		}
	})
	if calm != disturbed {
		t.Errorf("run after %v, undisturbed after %v", disturbed, calm)
	}
}
