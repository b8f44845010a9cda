package puppet_test

import (
	"strings"
	"testing"
	"time"

	"github.com/bellpull/bellpull/puppet"
	"github.com/bellpull/bellpull/schemas"
)

// limited makes the node one of a fleet with a limit of simultaneous runs.
func (n *node) limited(limit int) {
	n.keeper = &keeper{}
	n.store.limit = schemas.Limit{Known: true, Max: limit}
}

func (n *node) wantReleased(want ...string) {
	n.t.Helper()
	n.keeper.mu.Lock()
	defer n.keeper.mu.Unlock()
	if got := strings.Join(n.keeper.released, " "); got != strings.Join(want, " ") {
		n.t.Errorf("permits given back: %q, want %q\n%s", got, want, n.log)
	}
}

func TestLoopPermit(t *testing.T) {
	bubble(t, func(t *testing.T, n *node) {
		n.limited(50)
		n.start()
		n.put(web, "fw=80")
		n.pass(time.Hour)
		n.wantRuns(0)
		n.wantLog("waiting", "waiting for a permit", "fw new")
		if last := n.status(); last.State != schemas.NodeQueued || last.Permit == nil || !last.Permit.Granted.IsZero() {
			t.Errorf("status %+v, want queued", last)
		}
		n.keeper.grant()
		n.wantRuns(1)
		n.wantReleased()
		n.pass(3 * time.Second)
		n.wantReleased("p1")
		n.wantApplied(web, "fw")
		n.pass(time.Hour)
		if n.keeper.asked != 1 || n.keeper.inLine() != 0 {
			t.Errorf("asked %d times, %d in line, want once and none", n.keeper.asked, n.keeper.inLine())
		}
	})
}

// Without a limit nobody is asked.
func TestLoopNoLimit(t *testing.T) {
	bubble(t, func(t *testing.T, n *node) {
		n.limited(0)
		n.booked(web, "fw=80")
		if n.keeper.asked != 0 {
			t.Errorf("a keeper was asked %d times", n.keeper.asked)
		}
	})
}

// A limit that cannot be read is the last known one, also after a restart.
func TestLoopLimitIsRemembered(t *testing.T) {
	bubble(t, func(t *testing.T, n *node) {
		n.limited(50)
		n.booked0()
		n.store.limit = schemas.Limit{}
		n.restart()
		n.put(web, "fw=80")
		n.pass(5 * time.Minute)
		n.wantRuns(0)
		n.store.limit = schemas.Limit{Known: true} // none
		n.notices <- schemas.Notice{Resync: true}
		n.pass(20 * time.Second)
		n.wantRuns(1)
		n.store.limit = schemas.Limit{}
		n.restart()
		n.put(web, "fw=81")
		n.pass(time.Minute)
		n.wantRuns(2)
	})
}

// Who stands in line keeps the place when more changes come, and runs once for all.
func TestLoopChangeInLine(t *testing.T) {
	bubble(t, func(t *testing.T, n *node) {
		n.limited(50)
		n.start()
		n.put(web, "fw=80")
		n.pass(time.Minute)
		n.put(web, "fw=81", "other=1")
		n.pass(100 * time.Millisecond) // less than the quiet period
		n.keeper.grant()
		n.pass(time.Hour)
		n.wantRuns(1)
		n.wantApplied(web, "fw", "other")
		if n.keeper.asked != 1 {
			t.Errorf("asked %d times, want once", n.keeper.asked)
		}
	})
}

// What nobody needs any more is not waited for, and given back.
func TestLoopLeavesTheLine(t *testing.T) {
	tests := []struct {
		name    string
		change  func(n *node)
		granted bool // before the change could be noticed
		owed    int
	}{
		{"taken back", func(n *node) { n.put(web) }, false, 0},
		{"disabled", func(n *node) {
			n.agent.set(func(a *agent) { a.blocked = puppet.Blocked{Disabled: true} })
		}, false, 1},
		{"disabled, noticed at the grant", func(n *node) {
			n.agent.set(func(a *agent) { a.blocked = puppet.Blocked{Disabled: true} })
		}, true, 1},
		{"locked, noticed at the grant", func(n *node) {
			n.agent.set(func(a *agent) { a.blocked = puppet.Blocked{PID: 4711} })
		}, true, 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, func(t *testing.T, n *node) {
				n.limited(50)
				n.start()
				n.put(web, "fw=80")
				n.pass(time.Minute)
				tt.change(n)
				if tt.granted {
					n.keeper.grant()
					n.wantReleased("p1")
				}
				n.pass(time.Minute)
				n.wantRuns(0)
				if got := n.keeper.inLine(); got != 0 {
					t.Errorf("%d in line, want none", got)
				}
				n.agent.set(func(a *agent) { a.blocked = puppet.Blocked{} })
				n.pass(time.Minute)
				n.keeper.grant()
				n.pass(time.Hour)
				n.wantRuns(tt.owed)
			})
		})
	}
}

// Unknown is not unlimited, and its end is not a stampede.
func TestLoopNoKeeper(t *testing.T) {
	t.Run("runs without a permit at a random moment after watch.permits_unavailable", func(t *testing.T) {
		for _, random := range []float64{0, 0.5, 0.99} {
			bubble(t, func(t *testing.T, n *node) {
				n.limited(50)
				n.random = random
				n.keeper.silent = true
				n.start()
				begin := time.Now()
				n.put(web, "fw=80")
				n.pass(5 * time.Minute)
				n.restart() // the wait goes on over a restart
				n.pass(2 * time.Hour)
				n.wantRuns(1)
				n.wantLog("waiting", "no keeper answers")
				want := 10*time.Minute + time.Duration(random*float64(30*time.Minute))
				if got := n.gaps(begin); len(got) != 1 || got[0] < want || got[0] > want+time.Minute {
					t.Errorf("run after %v, want %v", got, want)
				}
				n.wantReleased()
			})
		}
	})
	t.Run("the splay, if it is longer, is what runs spread over", func(t *testing.T) {
		bubble(t, func(t *testing.T, n *node) {
			n.limited(50)
			n.keeper.silent = true
			n.timing.Splay = 4 * time.Hour
			n.start()
			begin := time.Now()
			n.put(web, "fw=80 splay=1ns")
			n.pass(24 * time.Hour)
			if got := n.gaps(begin); len(got) != 1 || got[0] < 2*time.Hour+10*time.Minute {
				t.Errorf("run after %v, want 2h10m and a little", got)
			}
		})
	})
	t.Run("never", func(t *testing.T) {
		bubble(t, func(t *testing.T, n *node) {
			n.limited(50)
			n.keeper.silent, n.patience = true, -1
			n.start()
			n.put(web, "fw=80")
			n.pass(100 * time.Hour)
			n.wantRuns(0)
		})
	})
	t.Run("a keeper that comes back is waited for again", func(t *testing.T) {
		bubble(t, func(t *testing.T, n *node) {
			n.limited(50)
			n.random = 0.9
			n.keeper.silent = true
			n.start()
			n.put(web, "fw=80")
			n.pass(15 * time.Minute)
			n.keeper.set(func(k *keeper) { k.silent = false })
			n.pass(100 * time.Hour)
			n.wantRuns(0)
			n.keeper.grant()
			n.wantRuns(1)
		})
	})
}

func TestLoopRenewsItsPermit(t *testing.T) {
	t.Run("while the run goes on", func(t *testing.T) {
		bubble(t, func(t *testing.T, n *node) {
			n.limited(50)
			n.agent.set(func(a *agent) { a.took = time.Hour })
			n.start()
			n.put(web, "fw=80")
			n.pass(time.Second)
			n.keeper.grant()
			n.pass(30 * time.Minute)
			n.keeper.set(func(k *keeper) { k.silent = true })
			n.pass(20 * time.Second) // less than the lease
			n.keeper.set(func(k *keeper) { k.silent = false })
			n.restart()
			n.pass(time.Hour)
			n.wantApplied(web, "fw")
			n.wantRuns(1)
			if got := len(n.keeper.renewed); got < 150 {
				t.Errorf("%d renewals in an hour, want one in 17 s", got)
			}
			if len(n.keeper.released) != 1 || n.keeper.released[0] != n.keeper.renewed[len(n.keeper.renewed)-1]+"'" {
				t.Errorf("given back %d, want the last one once", len(n.keeper.released))
			}
		})
	})
	// It may be somebody else's by now.
	t.Run("a permit that has lapsed is not given back", func(t *testing.T) {
		for name, lapse := range map[string]func(n *node){
			"refused":      func(n *node) { n.keeper.set(func(k *keeper) { k.lapsed = true }) },
			"no answer":    func(n *node) { n.keeper.set(func(k *keeper) { k.silent = true }) },
			"watcher away": func(n *node) { n.stop(); n.pass(time.Minute); n.start() },
		} {
			t.Run(name, func(t *testing.T) {
				bubble(t, func(t *testing.T, n *node) {
					n.limited(50)
					n.agent.set(func(a *agent) { a.took = time.Hour })
					n.start()
					n.put(web, "fw=80")
					n.pass(time.Second)
					n.keeper.grant()
					lapse(n)
					n.pass(2 * time.Hour)
					n.wantRuns(1)
					n.wantApplied(web, "fw")
					n.wantReleased()
					n.wantLog("the permit has lapsed")
				})
			})
		}
	})
}

// A run that cannot start gives its permit back, and its retry asks again.
func TestLoopRetryAsksAgain(t *testing.T) {
	bubble(t, func(t *testing.T, n *node) {
		n.limited(50)
		n.agent.set(func(a *agent) {
			a.results = []puppet.Result{{Outcome: puppet.Failed, Reason: "x"}, {Outcome: puppet.Changed}}
		})
		n.start()
		n.put(web, "fw=80")
		n.pass(time.Second)
		n.keeper.grant()
		n.pass(time.Hour)
		n.wantRuns(1)
		n.wantReleased("p1")
		n.keeper.grant()
		n.pass(time.Hour)
		n.wantRuns(2)
		n.wantReleased("p1", "p2")
		n.wantApplied(web, "fw")
	})
}

func TestLoopOnceWantsAPermit(t *testing.T) {
	bubble(t, func(t *testing.T, n *node) {
		n.limited(50)
		n.put(web, "fw=80")
		n.keeper.silent = true
		if err := n.loop().Once(t.Context(), false); err == nil || !strings.Contains(err.Error(), "no keeper answers") {
			t.Errorf("once: %v, want that no keeper answers", err)
		}
		n.wantRuns(0)
		n.keeper.silent = false
		done := make(chan error)
		go func() { done <- n.loop().Once(t.Context(), false) }()
		n.pass(time.Minute)
		n.keeper.grant()
		if err := <-done; err != nil {
			t.Error(err)
		}
		n.wantRuns(1)
		n.wantReleased("p1")
	})
}
