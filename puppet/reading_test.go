package puppet_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/bellpull/bellpull/puppet"
	"github.com/bellpull/bellpull/schemas"
)

func (n *node) resync() {
	n.notices <- schemas.Notice{Resync: true}
}

// remake gives the bucket another id; its revisions begin anew.
func (n *node) remake(scopes map[schemas.Scope]schemas.ScopeReading) {
	n.store.mu.Lock()
	n.store.id, n.store.revision, n.store.scopes = n.store.id+"'", 0, map[schemas.Scope]schemas.ScopeReading{}
	for scope := range n.store.good {
		if scopes[scope].Err == nil {
			delete(n.store.good, scope)
		}
	}
	n.store.mu.Unlock()
	for scope, reading := range scopes {
		n.store.set(scope, reading)
	}
	n.resync()
}

func TestLoopUnreadableScopeIsNotEmpty(t *testing.T) {
	for name, reading := range map[string]schemas.ScopeReading{
		"no answer":   {Err: fmt.Errorf("read: %w", schemas.ErrUnavailable)},
		"no document": {Err: fmt.Errorf("group/web: %w", schemas.ErrInvalid)},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, n *node) {
				n.booked(web, "fw=80")
				n.putReading(web, reading)
				n.pass(time.Hour)
				n.wantRuns(0)
				n.wantApplied(web, "fw")
				n.wantLog("reading is incomplete", "group/web")
				n.put("common", "x=1") // the others go on
				n.pass(time.Minute)
				n.wantRuns(1)
				n.put(web, "fw=80")
				n.pass(time.Hour)
				n.wantRuns(1)
			})
		})
	}
}

func TestLoopWithoutNATS(t *testing.T) {
	bubble(t, func(t *testing.T, n *node) {
		n.booked(web, "fw=80")
		n.stop()
		n.store.fail(schemas.ErrUnavailable)
		reads := n.store.readings()
		n.start()
		n.pass(time.Hour)
		n.wantRuns(0)
		if got := n.store.readings() - reads; got > 100 {
			t.Errorf("%d readings in an hour", got)
		}
		n.store.set(web, schemas.ScopeReading{Document: document(t, "fw=81")})
		n.store.fail(nil)
		n.pass(2 * time.Minute) // even without a notice
		n.wantRuns(1)
		n.wantApplied(web, "fw")
	})
}

func TestLoopResync(t *testing.T) {
	bubble(t, func(t *testing.T, n *node) {
		n.booked(web, "fw=80")
		n.store.set(web, schemas.ScopeReading{Document: document(t, "fw=81")}) // the notice is lost
		n.pass(11 * time.Minute)
		n.wantRuns(1)
	})
}

// A notice may come before the replica that is asked has the change.
func TestLoopNoticeAheadOfReplica(t *testing.T) {
	bubble(t, func(t *testing.T, n *node) {
		n.booked(web, "fw=80")
		n.notices <- schemas.Notice{Scope: web, Revision: 2}
		n.pass(time.Second)
		n.wantRuns(0)
		n.store.set(web, schemas.ScopeReading{Document: document(t, "fw=81")})
		n.pass(5 * time.Second)
		n.wantRuns(1)
	})
}

func TestLoopReplicaGoesBack(t *testing.T) {
	for name, lagging := range map[string]schemas.ScopeReading{
		"older":  {Revision: 1, Document: schemas.Document{}},
		"absent": {},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, n *node) {
				n.put(web, "fw=79")
				n.booked(web, "fw=80")
				n.store.mu.Lock()
				newest := n.store.scopes[web]
				n.store.scopes[web] = lagging
				n.store.mu.Unlock()
				n.restart()
				n.pass(time.Minute)
				n.wantRuns(0)
				n.pass(20 * time.Minute)
				n.wantRuns(0)
				n.wantLog("ERROR", "bucket went back from 2 to", "bellpull init --new-id")
				n.store.mu.Lock()
				n.store.scopes[web] = newest
				n.store.mu.Unlock()
				n.pass(time.Hour)
				n.wantRuns(0)
			})
		})
	}
}

func TestLoopBucketWithoutID(t *testing.T) {
	bubble(t, func(t *testing.T, n *node) {
		n.booked(web, "fw=80")
		n.store.mu.Lock()
		n.store.id, n.store.scopes = "", map[schemas.Scope]schemas.ScopeReading{}
		n.store.mu.Unlock()
		n.resync()
		n.pass(time.Hour)
		n.wantRuns(0)
		n.wantApplied(web, "fw")
		n.wantLog("ERROR", "run bellpull init")
	})
}

func TestLoopBucketMadeAnew(t *testing.T) {
	t.Run("equal data runs nothing", func(t *testing.T) {
		bubble(t, func(t *testing.T, n *node) {
			n.put(web, "fw=1")
			n.booked(web, "fw=80")
			n.remake(map[schemas.Scope]schemas.ScopeReading{web: {Document: document(t, "fw=80")}})
			n.pass(time.Hour)
			n.restart()
			n.pass(time.Hour)
			n.wantRuns(0)
			n.put(web, "fw=81")
			n.pass(time.Minute)
			n.wantRuns(1)
			n.wantApplied(web, "fw")
		})
	})
	t.Run("other data runs once", func(t *testing.T) {
		bubble(t, func(t *testing.T, n *node) {
			n.put(web, "fw=1")
			n.booked(web, "fw=80")
			n.remake(map[schemas.Scope]schemas.ScopeReading{web: {Document: document(t, "fw=81")}})
			n.pass(time.Hour)
			n.wantRuns(1)
			if got := n.applied(); got.Bucket != "b1'" || got.Scopes[web].Revision != 1 {
				t.Errorf("applied of bucket %s at %d, want b1' at 1", got.Bucket, got.Scopes[web].Revision)
			}
		})
	})
	t.Run("a missing document is believed at the second reading", func(t *testing.T) {
		bubble(t, func(t *testing.T, n *node) {
			n.booked(web, "fw=80")
			n.remake(nil)
			n.pass(9 * time.Second)
			n.wantRuns(0)
			n.pass(5 * time.Second)
			n.wantRuns(1)
			n.wantApplied(web)
		})
	})
	t.Run("a restore in between is no change", func(t *testing.T) {
		bubble(t, func(t *testing.T, n *node) {
			n.booked(web, "fw=80")
			n.remake(nil)
			n.pass(5 * time.Second)
			n.store.set(web, schemas.ScopeReading{Document: document(t, "fw=80")})
			n.pass(time.Hour)
			n.wantRuns(0)
		})
	})
	t.Run("a scope that cannot be read stays as it was", func(t *testing.T) {
		bubble(t, func(t *testing.T, n *node) {
			n.agent.set(func(a *agent) { a.class = false })
			n.put("common", "x=1", "y=1")
			for range 100 {
				n.put(web, "fw=79")
			}
			n.booked(web, "fw=80")
			n.remake(map[schemas.Scope]schemas.ScopeReading{
				"common": {Document: document(t, "x=2")}, web: {Err: schemas.ErrUnavailable},
			})
			n.pass(time.Minute)
			n.wantRuns(1)
			n.wantApplied("common", "x")
			n.put(web, "fw=80")
			n.pass(time.Hour)
			n.wantRuns(1)
			n.put(web, "fw=81") // its revision is far lower than the old bucket's
			n.pass(time.Hour)
			n.wantRuns(2)
		})
	})
}

func TestLoopEndOfNotices(t *testing.T) {
	bubble(t, func(t *testing.T, n *node) {
		notices := make(chan schemas.Notice)
		close(notices)
		if err := n.loop().Run(t.Context(), notices); err == nil {
			t.Error("the loop went on without notices, or ended without an error")
		}
	})
}

func TestLoopOnce(t *testing.T) {
	bubble(t, func(t *testing.T, n *node) {
		n.put(web, "fw=80 splay=9h")
		if err := n.loop().Once(t.Context(), true); err != nil {
			t.Error(err)
		}
		n.wantRuns(0)
		n.wantLog("a run is owed", "group/web: fw new")
		for range 2 {
			if err := n.loop().Once(t.Context(), false); err != nil {
				t.Error(err)
			}
		}
		n.wantRuns(1)
		n.wantApplied(web, "fw")

		n.put(web, "fw=81")
		n.agent.set(func(a *agent) {
			a.results = []puppet.Result{{Outcome: puppet.Failed, Reason: "1 resources failed: Exec[x]"}}
		})
		for i := range 2 { // whatever was tried before
			if err := n.loop().Once(t.Context(), false); err == nil || err.Error() != "1 resources failed: Exec[x]" {
				t.Errorf("once: %v, want the reason", err)
			}
			n.wantRuns(2 + i)
		}
		n.agent.set(func(a *agent) { a.blocked = puppet.Blocked{Disabled: true} })
		if err := n.loop().Once(t.Context(), false); err == nil || err.Error() != "a run is owed, but agent is disabled" {
			t.Errorf("once: %v, want the reason", err)
		}
		n.wantRuns(3)
		n.store.fail(schemas.ErrUnavailable)
		if err := n.loop().Once(t.Context(), false); err == nil {
			t.Error("once without a bucket: no error")
		}
	})
}
