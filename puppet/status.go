package puppet

import (
	"maps"
	"reflect"
	"slices"
	"time"

	"github.com/bellpull/bellpull/schemas"
)

// reported is what is told about the node besides where it stands; it is kept
// over a restart.
type reported struct {
	Agent   string             `json:"agent,omitzero"`    // Puppet's version, by its last report
	NoClass bool               `json:"no_class,omitzero"` // the last good run proved itself by the fact alone
	Run     *schemas.StatusRun `json:"run,omitzero"`      // the last that has ended
}

// report tells the node's status, if it is another than the last. d is what was
// decided.
func (l *Loop) report(d Decision) {
	s := schemas.Status{
		Node: l.cfg.Node, Version: l.cfg.Version, Agent: l.reported.Agent, Bucket: l.wanted.Bucket, Proof: string(l.cfg.Proof),
		Splay: l.cfg.Timing.Splay > 0, State: d.State, Why: clip(d.Why), Scopes: l.progress(d.Dues), Run: l.reported.Run, Faults: maps.Clone(l.faults),
	}
	if l.cfg.Proof == ProofAgent && l.reported.NoClass {
		s.Proof = "fact"
	}
	switch permit := l.line.PermitState; {
	case l.run != nil:
		s.State, s.Why = schemas.NodeRunning, clip(l.run.Why)
		if l.run.Permit != nil && l.run.Permit.Handle != "" {
			s.Permit = &schemas.StatusPermit{Asked: l.run.Asked.UTC(), Granted: l.run.Started.UTC()}
		}
	case permit.InLine():
		s.Permit = &schemas.StatusPermit{Asked: permit.Asked.UTC(), Unknown: permit.Unknown.UTC()}
		if permit.Unknown.IsZero() {
			s.Permit.Unknown = time.Time{}
		}
	}
	s.Time = l.told.Time
	if !reflect.DeepEqual(s, l.told) {
		s.Time = time.Now().UTC()
		l.told = s
		l.cfg.Report(s)
	}
}

// progress is how far the node is with each scope.
func (l *Loop) progress(dues []Due) map[schemas.Scope]schemas.StatusScope {
	out := map[schemas.Scope]schemas.StatusScope{}
	for scope, wanted := range l.wanted.Scopes {
		s := schemas.StatusScope{Wanted: wanted.Revision, Applied: wanted.Revision}
		applied, next := l.book.Applied.Scopes[scope], 0
		for _, d := range dues {
			if d.Scope != scope {
				continue
			}
			// What a run has used of another bucket is not comparable.
			if s.Applied = 0; l.book.Applied.Bucket == wanted.Bucket {
				s.Applied = min(applied.Revision, wanted.Revision)
			}
			if d.Entry == "" {
				continue
			}
			if len(s.Pending) == schemas.MaxStatusNames {
				s.More++
				continue
			}
			s.Pending = append(s.Pending, d.Entry)
		}
		for _, name := range slices.Sorted(maps.Keys(wanted.Entries)) {
			if e := wanted.Entries[name]; e.Next && applied.Entries[name] != e.Digest && e.live(time.Now()) && next < schemas.MaxStatusNames {
				s.Next = append(s.Next, name)
				next++
			}
		}
		out[scope] = s
	}
	return out
}

// ran notes how a run went, for the status.
func (l *Loop) ran(t Trial, findings []Finding) {
	r := t.Result
	run := &schemas.StatusRun{
		ID: t.Run.ID, Outcome: string(r.Outcome), Applied: len(findings) == 0, Exit: r.Exit, Noop: r.Noop, Tags: t.Run.Tags, Events: t.Run.Events,
		Failed: r.Failed[:min(len(r.Failed), schemas.MaxStatusNames)], Started: t.Run.Started.UTC(), Attempt: t.Run.Attempt + 1,
		Seconds: r.Ended.Sub(t.Run.Started).Round(time.Millisecond).Seconds(),
	}
	switch {
	case r.Outcome == NotRun && r.Blocked.Disabled:
		run.Outcome = "disabled"
	case r.Outcome == NotRun && r.Blocked.PID != 0:
		run.Outcome = "locked"
	}
	switch {
	case r.Outcome == NotRun:
		run.Applied, run.Reason = false, clip(r.Reason)
	case len(findings) > 0:
		run.Reason = clip(findings[0].Reason)
	default:
		l.reported.NoClass = t.Proof == ProofAgent && t.Compiled == nil
	}
	if r.Report != nil {
		l.reported.Agent = r.Report.Version
	}
	l.reported.Run = run
}
