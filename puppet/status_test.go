package puppet_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bellpull/bellpull/puppet"
	"github.com/bellpull/bellpull/schemas"
)

// statuses are those that were reported.
func (n *node) statuses() []schemas.Status {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.told)
}

func (n *node) status() schemas.Status {
	n.t.Helper()
	all := n.statuses()
	if len(all) == 0 {
		n.t.Fatal("no status was reported")
	}
	return all[len(all)-1]
}

func (n *node) signsOfLife() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.alive
}

func (n *node) states() []schemas.NodeState {
	var out []schemas.NodeState
	for _, s := range n.statuses() {
		out = append(out, s.State)
	}
	return slices.Compact(out)
}

func TestLoopStatus(t *testing.T) {
	bubble(t, func(t *testing.T, n *node) {
		n.agent.set(func(a *agent) {
			a.results = []puppet.Result{
				{Outcome: puppet.Failed, Reason: "1 resources failed: Package[nginx]", Failed: []string{"Package[nginx]"}, Exit: 4},
				{Outcome: puppet.Changed, Exit: 2},
			}
		})
		n.booked0()
		if got := n.status(); got.State != schemas.NodeConverged || got.Node != "web1.example.com" || got.Version != "1.2.3" || got.Bucket != "b1" {
			t.Errorf("status of a node for which nothing is wanted: %+v", got)
		}
		n.put(web, "fw=80", "later=1 next")
		n.pass(5 * time.Second)
		got := n.status()
		scope := got.Scopes[web]
		if got.State != schemas.NodeFailed || !strings.Contains(got.Why, "Package[nginx]") ||
			scope.Wanted != 1 || scope.Applied != 0 || !slices.Equal(scope.Pending, []string{"fw"}) || !slices.Equal(scope.Next, []string{"later"}) {
			t.Errorf("status after the failure: %+v", got)
		}
		run := got.Run
		if run == nil || run.Outcome != "failed" || run.Applied || run.Exit != 4 || run.Attempt != 1 || run.Seconds != 2 || run.Retry.IsZero() ||
			!slices.Equal(run.Failed, []string{"Package[nginx]"}) || !slices.Equal(run.Events, []string{"event-of-fw"}) {
			t.Errorf("run: %+v", run)
		}
		n.pass(time.Hour)
		got = n.status()
		if scope := got.Scopes[web]; got.State != schemas.NodeConverged || scope.Applied != 1 || scope.Pending != nil || scope.Next != nil {
			t.Errorf("status in the end: %+v", got)
		}
		if run := got.Run; !run.Applied || run.Outcome != "changed" || run.Attempt != 2 || run.Reason != "" || !run.Retry.IsZero() {
			t.Errorf("run: %+v", run)
		}
		if got, want := n.states(), []schemas.NodeState{"unknown", "converged", "waiting", "running", "failed", "running", "converged"}; !slices.Equal(got, want) && !slices.Equal(got, want[1:]) {
			t.Errorf("states %q, want %q", got, want)
		}
		for _, s := range n.statuses() {
			if body := must(s.Marshal()); strings.Contains(string(body), `"80"`) || len(body) > 4096 {
				t.Errorf("status %s: a value, or too long", body)
			}
		}

		// The same is not told twice, and a restart tells it once.
		told := len(n.statuses())
		n.pass(24 * time.Hour)
		if got := len(n.statuses()); got != told {
			t.Errorf("%d statuses in a day in which nothing happened", got-told)
		}
		n.restart()
		n.pass(time.Minute)
		if got := n.status(); got.Run == nil || got.Run.ID != run.ID && got.Run.Attempt != 2 {
			t.Errorf("run after a restart: %+v", got.Run)
		}
	})
}

// Equal data at a newer revision counts as applied: nothing is owed for it.
func TestLoopStatusOfEqualData(t *testing.T) {
	bubble(t, func(t *testing.T, n *node) {
		n.booked(web, "fw=80")
		n.put(web, "fw=80 ttl=99h")
		n.pass(time.Minute)
		if got := n.status().Scopes[web]; got.Wanted != 2 || got.Applied != 2 {
			t.Errorf("%+v, want revision 2 wanted and applied", got)
		}
	})
}

func TestLoopStatusStates(t *testing.T) {
	tests := []struct {
		name    string
		blocked puppet.Blocked
		want    schemas.NodeState
		why     string
	}{
		{"disabled", puppet.Blocked{Disabled: true, Message: "CHG-1"}, schemas.NodeDisabled, "agent is disabled: CHG-1"},
		{"locked", puppet.Blocked{PID: 4711}, schemas.NodeLocked, "run lock is held by pid 4711"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, func(t *testing.T, n *node) {
				n.agent.set(func(a *agent) { a.blocked = tt.blocked })
				n.start()
				n.put(web, "fw=80")
				n.pass(time.Hour)
				if got := n.status(); got.State != tt.want || got.Why != tt.why || !slices.Equal(got.Scopes[web].Pending, []string{"fw"}) {
					t.Errorf("status %+v, want %s because %s", got, tt.want, tt.why)
				}
			})
		})
	}
	t.Run("unreadable", func(t *testing.T) {
		bubble(t, func(t *testing.T, n *node) {
			n.booked(web, "fw=80")
			n.putReading(web, schemas.ScopeReading{Err: schemas.ErrInvalid})
			n.pass(time.Minute)
			if got := n.status(); got.Faults[string(web)] == "" || got.Scopes[web].Wanted != 1 {
				t.Errorf("status %+v, want a fault of %s and its last good revision", got, web)
			}
		})
	})
	t.Run("never read", func(t *testing.T) {
		bubble(t, func(t *testing.T, n *node) {
			n.store.fail(schemas.ErrUnavailable)
			n.start()
			n.pass(time.Minute)
			if got := n.status(); got.State != schemas.NodeUnknown || len(got.Scopes) != 0 || got.Faults["bucket"] == "" {
				t.Errorf("status %+v, want unknown", got)
			}
		})
	})
	t.Run("without class bellpull", func(t *testing.T) {
		bubble(t, func(t *testing.T, n *node) {
			n.agent.set(func(a *agent) { a.class = false })
			n.booked(web, "fw=80")
			if got := n.status(); got.Proof != "fact" {
				t.Errorf("proof %q, want fact", got.Proof)
			}
		})
	})
}

// A loop that works says so at least once a minute.
func TestLoopIsAlive(t *testing.T) {
	bubble(t, func(t *testing.T, n *node) {
		n.booked0()
		before := n.signsOfLife()
		n.pass(10 * time.Minute)
		if got := n.signsOfLife() - before; got < 10 || got > 20 {
			t.Errorf("%d signs of life in 10 minutes, want 10", got)
		}
	})
}
