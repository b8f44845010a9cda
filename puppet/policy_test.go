package puppet_test

import (
	"slices"
	"testing"
	"time"

	"github.com/bellpull/bellpull/schemas"
)

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
		n.agent.set(func(a *agent) { a.matched = []string{"app", "web"} })
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

		n.reset()
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
