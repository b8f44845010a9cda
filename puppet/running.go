package puppet

import (
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"reflect"
	"runtime/debug"
	"slices"
	"time"

	"github.com/bellpull/bellpull/schemas"
)

// pauseAfter is the pause before what could not even be tried is tried again.
const pauseAfter = 2 * time.Second

// situation is where things stand.
func (l *Loop) situation() Situation {
	return Situation{
		Now: time.Now(), Node: l.cfg.Node, Timing: l.cfg.Timing, Scopes: l.cfg.Scopes, Wanted: l.wanted, Book: l.book,
		Noticed: l.noticed, Since: l.since, Retry: l.retry, Last: l.last, Pause: l.pause, Permit: l.permitState(), Blocked: l.cfg.Runner.Blocked,
	}
}

// step decides what to do now, and does it.
func (l *Loop) step(ctx context.Context) {
	l.others()
	s := l.situation()
	if l.run != nil {
		s.Blocked = func() Blocked { return Blocked{} } // the lock is our own run's
		s.Permit = PermitState{}
	}
	d := s.Decide()
	noticed := map[string]time.Time{}
	for _, due := range d.Dues {
		noticed[due.Key()] = s.noticed(due)
	}
	l.noticed, l.until = noticed, d.Until
	var came []Due // while the run goes on
	if l.run != nil {
		came = l.run.unaware(d.Dues)
		d.Fresh = len(came) > 0
	}
	if !d.Fresh {
		l.since = time.Time{}
	} else if l.since.IsZero() {
		l.since = s.Now
	}
	switch {
	case len(came) > 0:
		l.decided("waiting", "why", "a run is under way: "+describe(came), "run", l.run.ID)
	case l.run != nil:
	case d.Action == Go:
		if l.start(ctx, d) == nil {
			l.report(d)
			return
		}
	case d.Action == Queue:
		l.decided("waiting", "why", d.Why)
		l.queue(ctx)
	case d.Action == Wait:
		l.quit()
		l.decided("waiting", "why", d.Why)
	default:
		l.quit()
		l.retry = nil
		l.decided("no run", "why", d.Why, "bucket", l.wanted.Bucket, "revision", l.wanted.newest())
	}
	l.saveSoon(d)
	l.report(d)
}

// saveWithin is how soon it stands on disk that a run is waited for.
const saveWithin = 5 * time.Second

// saveSoon keeps where things stand: what a run has done at once, and that one is
// waited for a little later, because mostly it starts before that.
func (l *Loop) saveSoon(d Decision) {
	now := time.Now()
	if waits := d.Action == Wait || d.Action == Queue; waits && l.run == nil && l.booked && now.Before(l.saveAt) {
		return
	} else if waits && l.run == nil && l.booked && l.saveAt.IsZero() {
		l.saveAt = now.Add(saveWithin)
		return
	}
	// A failure has been logged; the next step tries again.
	_ = l.save()
}

// start starts a run for what is owed. The run is written down before it starts:
// whatever happens from then on, no second one is started beside it. Its end comes
// by l.ended. An error means that nothing was started, because state cannot be kept.
func (l *Loop) start(ctx context.Context, d Decision) error {
	now := time.Now()
	run := Run{
		ID: newRunID(now), Started: now, Tags: d.Tags, Noop: d.Noop, Why: d.Why,
		Bucket: l.wanted.Bucket, Handed: l.wanted.handed(now), Covers: d.covers(), Events: d.events(), Permit: l.line.Held, Asked: l.line.Asked,
	}
	if l.retry != nil && !d.Fresh {
		run.Attempt = l.retry.Attempt
	}
	l.run, l.last, l.since = &run, now, time.Time{}
	if err := l.save(); err != nil {
		l.run, l.pause = nil, now.Add(wakeAtLeast)
		l.quit()
		return err
	}
	l.unqueue()
	l.decided("run", "run", run.ID, "why", run.Why, "tags", run.Tags, "noop", run.Noop, "attempt", run.Attempt+1)
	process, err := l.cfg.Runner.Start(Order{ID: run.ID, Tags: run.Tags, Noop: run.Noop, Wanted: filepath.Join(l.cfg.Dir, journalFile), Changes: d.Dues})
	if err != nil {
		if run.Permit != nil {
			l.giveBack(*run.Permit)
		}
		l.ended <- ending{notStarted: err}
		return nil
	}
	l.run.Process = process
	// Without the pid on disk a later watcher finds the process by the run's id.
	_ = l.save()
	l.wait(ctx, *l.run)
	return nil
}

// wait waits for the run in the background. Its end comes by l.ended.
func (l *Loop) wait(ctx context.Context, run Run) {
	ended := make(chan struct{})
	if run.Permit != nil {
		l.keep(ctx, *run.Permit, ended)
	}
	l.waits.Go(func() {
		result, err := l.cfg.Runner.Wait(ctx, run)
		if err == nil {
			close(ended) // the permit is somebody else's turn at once
		}
		l.ended <- ending{result: result, err: err}
	})
}

// finish judges the run that has ended and plans what follows from it.
func (l *Loop) finish(end ending) {
	if end.err != nil {
		return // ctx is over: the next watcher takes the run over
	}
	run, result := *l.run, end.result
	l.run, l.booked = nil, false
	l.seen = l.cfg.Runner.Reported()
	switch {
	case end.notStarted != nil:
		findings := []Finding{{Reason: end.notStarted.Error()}}
		l.ran(Trial{Run: run, Proof: l.cfg.Proof, Result: Result{Outcome: Failed, Exit: -1, Ended: time.Now()}}, findings)
		l.plan(run, findings)
		return
	case result.Outcome == NotRun:
		l.log.Info("run ended", "run", run.ID, "outcome", result.Outcome, "why", result.Reason)
		l.pause = time.Now().Add(pauseAfter)
		l.ran(Trial{Run: run, Proof: l.cfg.Proof, Result: result}, nil)
		return
	}
	trial, err := l.state.trial(run, l.cfg.Proof, result)
	if err != nil {
		l.log.Warn("the fact's record of the run cannot be read", "run", run.ID, "error", err)
	}
	book, findings := l.book.Judge(trial, l.wanted, time.Now())
	l.log.Info("run ended", "run", run.ID, "outcome", result.Outcome, "took", result.Ended.Sub(run.Started).Round(time.Millisecond),
		"exit", result.Exit, "failed", result.Failed)
	l.book, l.booked = book, false
	if left := run.left(dues(l.wanted, book, l.cfg.Scopes, time.Now(), l.cfg.Timing.Skew)); len(findings) == 0 && len(left) > 0 {
		// Watcher and fact do not see the same: without this the next run would start at once, and so on for ever.
		findings = []Finding{{Reason: "the run used something else than is wanted: " + describe(left)}}
	}
	l.ran(trial, findings)
	l.plan(run, findings)
	if result.Report != nil {
		// A report of thousands of resources took a hundred megabytes for a moment: the watcher is small again.
		debug.FreeOSMemory()
	}
}

// plan sets when to try again what the run has not proven.
func (l *Loop) plan(run Run, findings []Finding) {
	l.retry = nil
	if len(findings) == 0 {
		l.log.Info("applied", "run", run.ID, "bucket", l.book.Applied.Bucket, "scopes", l.book.revisions(), "noop", run.Noop, "tags", run.Tags)
		return
	}
	behind := true
	for _, f := range findings {
		behind = behind && f.Behind
		if f.Behind {
			l.log.Warn(f.Who+" behind", "run", run.ID, "scope", f.Scope, "has", f.Has, "needs", f.Needs, "why", f.Reason)
			continue
		}
		l.log.Warn("not proven", "run", run.ID, "scope", f.Scope, "why", f.Reason)
	}
	attempt := run.Attempt + 1
	wait := backoff(attempt, behind, l.cfg.Random())
	tried := map[schemas.Scope]map[string]string{}
	for scope, h := range run.Handed {
		tried[scope] = h.Entries
	}
	l.retry = &Retry{Attempt: attempt, At: time.Now().Add(wait), Why: findings[0].Reason, Tried: tried}
	l.reported.Run.Retry = l.retry.At.UTC()
}

// save keeps where things stand. What is applied goes first: a watcher that is
// stopped in between finds the run still under way and judges it once more, to
// the same end.
func (l *Loop) save() error {
	var err error
	if !l.booked { // an unchanged one is not even written out
		err = l.state.saveApplied(l.book.Applied)
		l.booked = err == nil
	}
	now := journal{
		Wanted: l.wanted, Last: l.last, Retry: l.retry, Unproven: l.book.Unproven, Seen: l.seen, Noticed: l.noticed,
		Limit: l.limit, Unknown: l.line.Unknown, Alone: l.line.Alone, Reported: l.reported,
	}
	if l.run != nil {
		run := *l.run // it changes while it goes on
		now.Run = &run
	}
	if err == nil && !reflect.DeepEqual(now, l.saved) {
		if err = l.state.saveJournal(now); err == nil {
			l.saved = now
		}
	}
	l.saveAt = time.Time{}
	switch {
	case err == nil:
		delete(l.said, "state")
	case l.said["state"] == "":
		l.log.Error("state cannot be kept; no run is started until it can", "error", err)
		l.said["state"] = "lost"
	}
	return err
}

// decided logs a decision when it is another than the last.
func (l *Loop) decided(what string, args ...any) {
	text := fmt.Sprint(what, args)
	if l.said["decision"] != text {
		l.said["decision"] = text
		l.log.Info(what, args...)
	}
}

// left lists the dues that the run was for.
func (r Run) left(dues []Due) []Due {
	var out []Due
	for _, d := range dues {
		_, handed := r.Handed[d.Scope]
		if _, covered := r.Covers[d.Scope][d.Entry]; handed && (r.Covers == nil || covered) && r.Handed[d.Scope].Entries[d.Entry] == d.Digest {
			out = append(out, d)
		}
	}
	return out
}

// unaware lists the dues that came after the run had been started.
func (r Run) unaware(dues []Due) []Due {
	var out []Due
	for _, d := range dues {
		if d.Entry != "" && r.Handed[d.Scope].Entries[d.Entry] != d.Digest {
			out = append(out, d)
		}
	}
	return out
}

// covers are the entries that a run of this decision is for; nil = a whole run,
// which is for all.
func (d Decision) covers() map[schemas.Scope]map[string]Cover {
	if len(d.Tags) == 0 && !d.Noop {
		return nil
	}
	out := map[schemas.Scope]map[string]Cover{}
	for _, due := range d.Dues {
		if out[due.Scope] == nil {
			out[due.Scope] = map[string]Cover{}
		}
		out[due.Scope][due.Entry] = Cover{Digest: due.Digest, Tags: due.Policy.Tags}
	}
	return out
}

// events are the ids of the events that a run of this decision is for.
func (d Decision) events() []string {
	var out []string
	for _, due := range d.Dues {
		if due.Event != "" {
			out = append(out, due.Event)
		}
	}
	slices.Sort(out)
	out = slices.Compact(out)
	return out[:min(len(out), schemas.MaxStatusNames)]
}

// revisions is what is applied, by scope.
func (b Book) revisions() map[schemas.Scope]uint64 {
	out := map[schemas.Scope]uint64{}
	for scope, a := range b.Applied.Scopes {
		out[scope] = a.Revision
	}
	return out
}

// newest is the highest revision that is wanted.
func (w Wanted) newest() uint64 {
	var newest uint64
	for s := range maps.Values(w.Scopes) {
		newest = max(newest, s.Revision)
	}
	return newest
}
