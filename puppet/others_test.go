package puppet_test

import (
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/bellpull/bellpull/puppet"
	"github.com/bellpull/bellpull/schemas"
)

// foreign is a run that the daemon, cron or a person starts, and how it differs
// from one that proves what it used.
type foreign struct {
	pid    int
	report func(r *puppet.Report) // changes what Puppet reports
	noFact bool                   // the fact left no record
	stale  bool                   // the fact's record is of an earlier run
	apply  bool                   // puppet apply: it holds no run lock, so the fact names no pid
}

// runForeign plays a whole run of somebody else, of four seconds.
func (n *node) runForeign(f foreign) {
	n.t.Helper()
	shown := func() {
		reading := n.store.lastGood(n.scopes)
		s := schemas.Shown{Bucket: reading.Bucket, PID: f.pid, Time: time.Now(), Scopes: map[schemas.Scope]schemas.ShownScope{}}
		for _, r := range reading.Scopes {
			s.Scopes[r.Scope] = schemas.ShownScope{Revision: r.Revision, Live: true, Entries: n.digester.Entries(r.Document, time.Now())}
		}
		n.write(filepath.Join("shown", "pid-"+strconv.Itoa(f.pid)+".json"), must(s.Marshal()))
	}
	if f.stale {
		shown()
	}
	n.agent.set(func(a *agent) { a.blocked = puppet.Blocked{PID: f.pid} })
	n.pass(time.Second)
	report := &puppet.Report{
		Status: "changed", Time: time.Now(), Version: "8.10.0", Completed: true, Cached: "not_used",
		Resources: map[string]puppet.ResourceStatus{"File[/etc/fw]": {Tags: []string{"file"}}},
	}
	n.pass(time.Second)
	if !f.noFact && !f.stale && !f.apply {
		shown()
	}
	n.pass(time.Second)
	n.agent.compile()
	if n.agent.class {
		report.Resources["File["+filepath.Join(n.dir, "compiled.json")+"]"] = puppet.ResourceStatus{Tags: []string{puppet.CompiledTag}}
	}
	if f.report != nil {
		f.report(report)
	}
	n.pass(time.Second)
	n.agent.set(func(a *agent) {
		a.report, a.written, a.blocked = report, time.Now(), puppet.Blocked{}
		if f.apply { // its report is not the agent's
			a.report, a.written = nil, time.Time{}
		}
	})
}

// A run by others counts as applied when their fact's record and their report
// prove it: no run of our own follows.
func TestLoopRunOfOthers(t *testing.T) {
	skip := func(title string) func(*puppet.Report) {
		return func(r *puppet.Report) { r.Resources[title] = puppet.ResourceStatus{Skipped: true} }
	}
	tests := []struct {
		name string
		run  foreign
		more int // runs of our own that follow
	}{
		{"proven", foreign{pid: 100}, 0},
		{"proven, with a job id of its own", foreign{pid: 100, report: func(r *puppet.Report) { r.JobID = "42" }}, 0},
		{"nothing changed", foreign{pid: 100, report: func(r *puppet.Report) { r.Status = "unchanged" }}, 0},
		{"ended by SIGTERM", foreign{pid: 100, report: func(r *puppet.Report) { r.Status, r.Completed = "failed", false }}, 1},
		{"resource failed", foreign{pid: 100, report: func(r *puppet.Report) {
			r.Status, r.Resources["Exec[x]"] = "failed", puppet.ResourceStatus{Failed: true}
		}}, 1},
		{"cached catalog", foreign{pid: 100, report: func(r *puppet.Report) { r.Cached = "on_failure" }}, 1},
		{"--noop", foreign{pid: 100, report: func(r *puppet.Report) { r.Noop = true }}, 1},
		{"--tags that matched nothing", foreign{pid: 100, report: skip("File[/etc/fw]")}, 1},
		{"no record of the fact", foreign{pid: 100, noFact: true}, 1},
		{"a record of an earlier run", foreign{pid: 100, stale: true}, 1},
		{"puppet apply", foreign{pid: 100, apply: true}, 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, func(t *testing.T, n *node) {
				n.booked(web, "fw=80")
				n.timing.Splay = time.Hour // ours would come later
				n.restart()
				n.put(web, "fw=81", "other=1 next")
				n.runForeign(tt.run)
				n.pass(2 * time.Hour)
				n.wantRuns(tt.more)
				n.wantApplied(web, "fw", "other")
				n.restart()
				n.pass(2 * time.Hour)
				n.wantRuns(tt.more)
			})
		})
	}
}

// The run of somebody else that was under way when the change came is waited for;
// if it has not used the change, one run follows, and if it has, none does.
func TestLoopChangeDuringRunOfOthers(t *testing.T) {
	for _, tt := range []struct {
		name string
		at   time.Duration // the change comes, from the run's start; its fact reads after 2 s
		more int
	}{{"before its fact reads", time.Second, 0}, {"after its fact has read", 3 * time.Second, 1}} {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, func(t *testing.T, n *node) {
				n.booked(web, "fw=80")
				go func() {
					time.Sleep(tt.at)
					n.notices <- schemas.Notice{Scope: web, Revision: n.store.set(web, schemas.ScopeReading{Document: document(n.t, "fw=81")})}
				}()
				n.runForeign(foreign{pid: 100})
				n.pass(time.Hour)
				n.wantRuns(tt.more)
				n.wantApplied(web, "fw")
			})
		})
	}
}

// A server that is behind is noticed in runs of others too, and an entry that
// waits for the next run is applied by theirs.
func TestLoopRunOfOthersServerBehind(t *testing.T) {
	bubble(t, func(t *testing.T, n *node) {
		n.booked(web, "fw=80")
		behind := newBucket()
		behind.set(web, schemas.ScopeReading{Document: document(t, "fw=80")})
		n.agent.set(func(a *agent) { a.server = behind })
		n.put(web, "fw=81 next")
		n.runForeign(foreign{pid: 100})
		n.pass(time.Minute)
		n.wantLog("a run of somebody else proves nothing", "server behind")
		n.agent.set(func(a *agent) { a.server = nil })
		n.runForeign(foreign{pid: 101})
		n.pass(time.Hour)
		n.wantLog("applied by a run of somebody else")
		n.wantApplied(web, "fw")
	})
}
