package puppet_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/bellpull/bellpull/puppet"
)

// WATCH-02: a failed run, and changes while it goes on.
func TestLoopFailedRunSwallowsNothing(t *testing.T) {
	bubble(t, func(t *testing.T, n *node) {
		n.agent.set(func(a *agent) {
			a.results = []puppet.Result{{Outcome: puppet.Failed, Reason: "1 resources failed: Exec[x]", Exit: 4}, {Outcome: puppet.Changed}}
		})
		n.start()
		n.put(web, "fw=1")
		n.pass(time.Second)
		for i := range 50 {
			n.put(web, fmt.Sprintf("fw=%d", i+2))
			n.pass(20 * time.Millisecond)
		}
		n.pass(time.Hour)
		if got := len(n.agent.orders); got < 2 || got > 3 {
			t.Errorf("%d runs, want 2 or 3", got)
		}
		n.wantApplied(web, "fw")
	})
}

func TestLoopBackoff(t *testing.T) {
	bubble(t, func(t *testing.T, n *node) {
		n.agent.set(func(a *agent) { a.took = 0 })
		n.agent.set(func(a *agent) {
			a.results = []puppet.Result{{Outcome: puppet.Failed, Reason: "1 resources failed: Exec[x]"}}
		})
		n.start()
		begin := time.Now()
		n.put(web, "fw=1")
		n.pass(3 * time.Hour)
		m := time.Minute
		want := []time.Duration{250 * time.Millisecond, m / 2, m, 2 * m, 4 * m, 8 * m, 16 * m, 30 * m, 30 * m}
		if got := n.gaps(begin); !slices.Equal(got[:len(want)], want) {
			t.Errorf("runs after %v, want %v", got, want)
		}
		n.wantLog("waiting", "retry 1", "Exec[x]")

		// Newer state does not wait, and begins anew.
		begin = n.reset()
		n.put(web, "fw=2")
		n.pass(2 * time.Minute)
		if got := n.gaps(begin); !slices.Equal(got, want[:3]) {
			t.Errorf("runs after %v, want %v", got, want[:3])
		}
		// A restart neither hastens nor forgets the retry.
		n.restart()
		n.pass(80 * time.Second)
		n.wantRuns(3)
		n.pass(20 * time.Second)
		n.wantRuns(4)
	})
}

// A watcher that is started after the clock was set back does not wait for the old time.
func TestLoopBackoffAfterClockChange(t *testing.T) {
	bubble(t, func(t *testing.T, n *node) {
		n.agent.set(func(a *agent) {
			a.results = []puppet.Result{{Outcome: puppet.Failed, Reason: "x"}, {Outcome: puppet.Changed}}
		})
		n.start()
		n.put(web, "fw=1")
		n.pass(5 * time.Second)
		n.stop()
		n.journal(func(j map[string]any) { j["retry"].(map[string]any)["at"] = time.Now().AddDate(1, 0, 0) })
		n.start()
		n.pass(29 * time.Minute)
		n.wantRuns(1)
		n.pass(2 * time.Minute)
		n.wantRuns(2)
	})
}

// A run that failed may have done half: what was wanted before owes a run again.
func TestLoopBackAfterFailure(t *testing.T) {
	for name, then := range map[string][]string{"as it was": {"fw=80"}, "without the new entry": {"fw=80"}} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, n *node) {
				n.booked(web, "fw=80")
				n.agent.set(func(a *agent) {
					a.results = []puppet.Result{{Outcome: puppet.Failed, Reason: "x"}, {Outcome: puppet.Changed}}
				})
				if name == "as it was" {
					n.put(web, "fw=81")
				} else {
					n.put(web, "fw=80", "pool=1")
				}
				n.pass(5 * time.Second)
				n.wantRuns(1)
				n.restart()
				n.put(web, then...)
				n.pass(time.Hour)
				n.wantRuns(2)
				n.wantApplied(web, "fw")
			})
		})
	}
}

// WATCH-04: disabled stays disabled, also when it happens during the wait.
func TestLoopDisabled(t *testing.T) {
	bubble(t, func(t *testing.T, n *node) {
		n.start()
		n.put(web, "fw=80")
		n.pass(100 * time.Millisecond)
		n.agent.set(func(a *agent) { a.blocked = puppet.Blocked{Disabled: true, Message: "maintenance window CHG-0001"} })
		n.pass(24 * time.Hour)
		n.wantRuns(0)
		n.wantLog("waiting", "agent is disabled: maintenance window CHG-0001")
		n.agent.set(func(a *agent) { a.blocked = puppet.Blocked{} })
		n.pass(time.Minute)
		n.wantRuns(1)
		n.pass(time.Hour)
		n.wantRuns(1)
	})
}

func TestLoopWaitsForTheLock(t *testing.T) {
	bubble(t, func(t *testing.T, n *node) {
		n.agent.set(func(a *agent) { a.blocked = puppet.Blocked{PID: 4711} })
		n.start()
		n.put(web, "fw=80")
		n.pass(time.Hour)
		n.wantRuns(0)
		n.wantLog("waiting", "run lock is held by pid 4711")
		n.agent.set(func(a *agent) { a.blocked = puppet.Blocked{} })
		n.pass(5 * time.Second)
		n.wantRuns(1)
	})
}

// The agent found itself locked out or disabled: that was no run and no failure.
func TestLoopNotRun(t *testing.T) {
	bubble(t, func(t *testing.T, n *node) {
		n.agent.set(func(a *agent) { a.took = 0 })
		n.agent.set(func(a *agent) {
			a.results = []puppet.Result{{Outcome: puppet.NotRun, Reason: "run lock is held by pid 4711"}, {Outcome: puppet.Changed}}
		})
		n.start()
		begin := time.Now()
		n.put(web, "fw=80")
		n.pass(time.Hour)
		if got := n.gaps(begin); len(got) != 2 || got[1] > 10*time.Second {
			t.Errorf("runs after %v, want a second one soon", got)
		}
		n.wantApplied(web, "fw")
	})
}
