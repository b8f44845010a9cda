package puppet_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/bellpull/bellpull/puppet"
	"github.com/bellpull/bellpull/schemas"
)

const web = schemas.Scope("group/web")

func TestLoopFirstStart(t *testing.T) {
	t.Run("node with entries runs once", func(t *testing.T) {
		bubble(t, func(t *testing.T, n *node) {
			n.put(web, "fw=80")
			n.start()
			n.pass(time.Hour)
			n.wantRuns(1)
			n.wantApplied(web, "fw")
		})
	})
	t.Run("node without entries runs nothing", func(t *testing.T) {
		bubble(t, func(t *testing.T, n *node) {
			n.start()
			n.pass(time.Hour)
			n.wantRuns(0)
			n.wantLog("no run", "equal data")
		})
	})
}

// WATCH-03: nothing new starts no run, however it is told.
func TestLoopEqualData(t *testing.T) {
	bubble(t, func(t *testing.T, n *node) {
		n.booked(web, "fw=80", "token=1 secret")
		for range 3 {
			n.restart()
			n.pass(time.Minute)
		}
		n.notices <- schemas.Notice{Resync: true}
		n.notices <- schemas.Notice{Scope: web, Revision: 1}
		n.notices <- schemas.Notice{Scope: web, Revision: 1}
		n.put(web, "fw=80", "token=1 secret")         // the same bytes
		n.put(web, "fw=80 ttl=99h", "token=1 secret") // another expiry only
		n.pass(time.Hour)
		n.wantRuns(0)
		n.wantLog("no run", "equal data", "revision=2")

		n.stop()
		n.put(web, "fw=81", "token=1 secret")
		n.start()
		n.pass(time.Hour)
		n.wantRuns(1)
		n.put(web, "fw=81", "token=1") // no secret any more: that counts
		n.pass(time.Hour)
		n.wantRuns(2)
	})
}

// A notice of what is known causes no reading.
func TestLoopRedeliveredNotice(t *testing.T) {
	bubble(t, func(t *testing.T, n *node) {
		n.booked(web, "fw=80")
		reads := n.store.readings()
		for range 10 {
			n.notices <- schemas.Notice{Scope: web, Revision: 1}
		}
		n.pass(time.Second)
		if got := n.store.readings() - reads; got != 0 {
			t.Errorf("%d readings, want 0", got)
		}
	})
}

func TestLoopQuietPeriod(t *testing.T) {
	bubble(t, func(t *testing.T, n *node) {
		n.start()
		begin := time.Now()
		n.put(web, "fw=80")
		n.pass(249 * time.Millisecond)
		n.wantRuns(0)
		n.pass(time.Millisecond)
		n.wantRuns(1)
		n.pass(time.Minute)
		if got := n.gaps(begin); got[0] != 250*time.Millisecond {
			t.Errorf("run after %v, want 250ms", got[0])
		}

		begin = n.reset()
		for i := range 30 { // a change every 100 ms: the quiet period has an end
			n.put(web, fmt.Sprintf("fw=%d", i))
			n.pass(100 * time.Millisecond)
		}
		n.pass(time.Minute)
		// What came after the first run's fact takes one trailing run.
		if got := n.gaps(begin); len(got) != 2 || got[0] != 2*time.Second || got[1] != 2*time.Second {
			t.Errorf("runs after %v, want 2s and 2s", got)
		}
		n.wantApplied(web, "fw")
	})
}

// A change that is taken back before anything runs owes nothing.
func TestLoopChangeTakenBack(t *testing.T) {
	bubble(t, func(t *testing.T, n *node) {
		n.booked(web, "fw=80")
		n.put(web, "fw=81")
		n.pass(100 * time.Millisecond)
		n.put(web, "fw=80")
		n.pass(time.Hour)
		n.wantRuns(0)
	})
}

func TestLoopChangeDuringRun(t *testing.T) {
	for _, tt := range []struct {
		name string
		at   time.Duration // after the run's start; its fact reads at 500 ms, its server at 1 s
		want int
	}{
		{"before the fact: the run under way has used it", 300 * time.Millisecond, 1},
		{"between fact and compile: one more", 700 * time.Millisecond, 2},
		{"after the compile: one more", 1500 * time.Millisecond, 2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, func(t *testing.T, n *node) {
				n.start()
				n.put(web, "fw=80")
				n.pass(250 * time.Millisecond)
				n.wantRuns(1)
				n.pass(tt.at)
				for i := range 5 {
					n.put(web, "fw=80", fmt.Sprintf("pool=%d", i))
				}
				n.wantLog("waiting", "a run is under way", "pool")
				n.pass(time.Hour)
				n.wantRuns(tt.want)
				n.wantApplied(web, "fw", "pool")
			})
		})
	}
}

func TestLoopRemoval(t *testing.T) {
	bubble(t, func(t *testing.T, n *node) {
		n.booked(web, "fw=80", "pool=1 tags=app")
		n.put(web, "fw=80")
		n.pass(time.Minute)
		n.wantRuns(1)
		n.wantApplied(web, "fw")
		// What is gone has no resource left that a tag could match.
		if tags := n.agent.orders[0].Tags; tags != nil {
			t.Errorf("run limited to %q, want a whole run", tags)
		}
		n.putReading(web, schemas.ScopeReading{Deleted: true})
		n.pass(time.Minute)
		n.wantRuns(2)
		n.wantApplied(web)
	})
}

func TestLoopMinInterval(t *testing.T) {
	bubble(t, func(t *testing.T, n *node) {
		n.timing.MinInterval = 10 * time.Minute
		n.booked(web, "fw=80")
		n.put(web, "fw=81")
		n.pass(time.Minute)
		n.restart()
		n.pass(8 * time.Minute)
		n.wantRuns(0)
		n.wantLog("waiting", "watch.min_interval")
		n.pass(time.Minute)
		n.wantRuns(1)
	})
}

func TestLoopHierarchyChange(t *testing.T) {
	bubble(t, func(t *testing.T, n *node) {
		n.booked(web, "fw=80")
		n.stop()
		n.scopes = []schemas.Scope{"common"}
		n.start()
		n.pass(time.Hour)
		n.wantRuns(1)
		n.wantApplied(web)
		n.restart()
		n.pass(time.Hour)
		n.wantRuns(1)
	})
}

// Fact and watcher disagree, for whatever reason: no loop faster than the backoff.
func TestLoopNeverSpins(t *testing.T) {
	for name, shown := range map[string]func(schemas.Shown) schemas.Shown{
		"another digest key": func(s schemas.Shown) schemas.Shown {
			s.Scopes[web].Entries["fw"] = "h1:x"
			return s
		},
		"a scope that the watcher does not know": func(s schemas.Shown) schemas.Shown {
			s.Scopes["group/db"] = schemas.ShownScope{Revision: 1, Entries: map[string]string{"x": "h1:x"}}
			return s
		},
		"no scope at all": func(s schemas.Shown) schemas.Shown {
			s.Scopes = nil
			return s
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, n *node) {
				n.agent.set(func(a *agent) { a.shown = shown })
				n.start()
				n.put(web, "fw=80")
				n.pass(10 * time.Minute)
				if got := len(n.agent.orders); got > 6 {
					t.Errorf("%d runs in 10 minutes", got)
				}
			})
		})
	}
}

func TestLoopCommandThatCannotStart(t *testing.T) {
	bubble(t, func(t *testing.T, n *node) {
		loop := puppet.NewLoop(puppet.LoopConfig{Store: n.store, Runner: noRunner{}, Scopes: n.scopes, Dir: n.dir, Digester: n.digester})
		n.put(web, "fw=80")
		if err := loop.Once(t.Context(), false); err == nil || err.Error() != "start puppet: not found" {
			t.Errorf("once: %v, want the reason", err)
		}
	})
}

type noRunner struct{ puppet.Runner }

func (noRunner) Blocked() puppet.Blocked { return puppet.Blocked{} }
func (noRunner) Reported() time.Time     { return time.Time{} }
func (noRunner) Start(puppet.Order) (puppet.Process, error) {
	return puppet.Process{}, errors.New("start puppet: not found")
}
