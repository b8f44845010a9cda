package puppet

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"time"
)

// Outcome is how a run went.
type Outcome string

// The outcomes. Only Changed and Unchanged are success.
const (
	Changed   Outcome = "changed"
	Unchanged Outcome = "unchanged"
	Failed    Outcome = "failed"    // ran, and not all of it worked; or did not get as far as running
	TimedOut  Outcome = "timed out" // was stopped because it took too long
	NotRun    Outcome = "not run"   // the agent was disabled, or another run held the lock: it does not count as a run
)

// Result is how a run really went, by everything that there is to see.
type Result struct {
	Outcome Outcome
	Reason  string  // one line; "" for success
	Blocked Blocked // with NotRun: by what
	Exit    int     // exit status; -1 = not known, as for a run that outlived its watcher; 128+n = signal n
	Noop    bool    // the report says that it was a preview only
	Failed  []string
	// Report is this run's report; nil when there is none, as with [ProofExit].
	Report  *Report
	Started time.Time
	Ended   time.Time
	Stdout  string // the last of it
	Stderr  string
}

// Success reports whether all that the run set out to do was done.
func (r Result) Success() bool { return r.Outcome == Changed || r.Outcome == Unchanged }

// evidence is what there is to see once a run has ended.
type evidence struct {
	proof     Proof
	id        string
	started   time.Time
	found     bool // there was a process
	exit      int  // -1 = not known
	timedOut  bool
	report    Report
	reportErr error // why report is not set
	blocked   Blocked
	stderr    string // the last of it
}

// verdict tells the result. Puppet's exit status alone is worth little: a run
// that was ended by SIGTERM exits with 0, and 1 is failed, locked or disabled.
func (e evidence) verdict() Result {
	r := Result{Exit: e.exit, Started: e.started}
	fail := func(format string, args ...any) Result {
		r.Outcome, r.Reason = Failed, fmt.Sprintf(format, args...)
		return r
	}
	if e.timedOut {
		r.Outcome, r.Reason = TimedOut, "took longer than watch.timeout and was stopped"
		return r
	}
	if e.proof == ProofExit {
		switch {
		case e.exit == 0:
			r.Outcome = Changed
			return r
		case !e.found:
			return e.neverStarted(r)
		case e.exit < 0:
			return fail("ended while no watcher saw it: its exit status is not known")
		}
		return fail("exit status %d", e.exit)
	}
	if foreign := e.foreign(); foreign != "" {
		if !e.found {
			return e.neverStarted(r)
		}
		if e.exit == 1 && !e.blocked.Free() {
			r.Outcome, r.Reason, r.Blocked = NotRun, e.blocked.String(), e.blocked
			return r
		}
		if e.exit < 0 {
			return fail("%s", foreign)
		}
		if said := lastLine(e.stderr); said != "" {
			return fail("exit status %d, and %s; it said %q", e.exit, foreign, clip(said))
		}
		return fail("exit status %d, and %s", e.exit, foreign)
	}
	r.Report, r.Noop, r.Failed = &e.report, e.report.Noop, e.report.FailedResources()
	switch {
	case e.report.Cached != "not_used":
		return fail("used a cached catalog (%s)", e.report.Cached)
	case !e.report.Completed && len(e.report.Resources) == 0:
		return fail("no catalog was applied: %s", cmp.Or(e.report.Complaint(), "it did not compile, or the server was out of reach"))
	case !e.report.Completed:
		return fail("was interrupted before its catalog was done")
	case len(r.Failed) > 0:
		return fail("%d resources failed: %s", len(r.Failed), brief(r.Failed))
	case e.report.Status == "failed":
		return fail("the report says that it failed")
	case e.exit > 0 && e.exit != 2:
		return fail("exit status %d", e.exit)
	}
	r.Outcome = Unchanged
	if e.report.Status == "changed" {
		r.Outcome = Changed
	}
	return r
}

// neverStarted is the result where nothing is found of a run: the watcher was
// stopped before it could start it.
func (e evidence) neverStarted(r Result) Result {
	r.Outcome, r.Reason = NotRun, "was not started"
	return r
}

// foreign says why the report is not this run's; "" when it is.
func (e evidence) foreign() string {
	switch {
	case errors.Is(e.reportErr, fs.ErrNotExist):
		return "there is no report"
	case e.reportErr != nil:
		return e.reportErr.Error()
	case e.proof == ProofAgent && e.report.JobID != e.id:
		return fmt.Sprintf("the report is another run's (job id %q)", e.report.JobID)
	case e.proof == ProofApply && e.report.Time.Before(e.started):
		return "the report is an earlier run's, begun " + e.report.Time.UTC().Format(time.RFC3339)
	}
	return ""
}

// brief joins the first few names.
func brief(names []string) string {
	const most = 5
	if len(names) > most {
		return strings.Join(names[:most], ", ") + fmt.Sprintf(" and %d more", len(names)-most)
	}
	return strings.Join(names, ", ")
}

// firstLine is what Puppet wants to say: what follows is where in its own code.
func firstLine(text string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	return clip(line)
}

// clip keeps a reason short whatever a command says.
func clip(text string) string {
	const most = 400 // bytes
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + "…"
}

// lastLine is what a command most likely wanted to say in the end.
func lastLine(text string) string {
	text = strings.TrimSpace(text)
	return text[strings.LastIndexByte(text, '\n')+1:]
}
