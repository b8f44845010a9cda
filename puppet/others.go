package puppet

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/bellpull/bellpull/schemas"
)

// others looks whether somebody else's run, the daemon's, cron's or a person's,
// has left a report since the last look, and books what that run is proven to
// have used. Its fact's record is found by time: only one agent holds the run
// lock, and the fact leaves a record for nobody else.
func (l *Loop) others() {
	if l.cfg.Proof != ProofAgent || l.run != nil {
		return
	}
	written := l.cfg.Runner.Reported()
	if written.IsZero() || written.Equal(l.seen) {
		return
	}
	l.seen = written
	report, err := l.cfg.Runner.Report()
	if err != nil {
		l.log.Warn("the report of somebody else's run proves nothing", "why", err)
		return
	}
	if !report.Time.After(l.last) {
		return // before our own last run, which has been judged
	}
	t, err := l.state.othersTrial(report, written)
	if err != nil {
		l.log.Warn("the fact's record of somebody else's run cannot be read", "error", err)
	}
	book, findings := l.book.Judge(t, l.wanted, time.Now())
	l.book, l.booked = book, false
	l.ran(t, findings)
	if len(findings) > 0 {
		l.log.Info("a run of somebody else proves nothing", "began", report.Time, "scope", findings[0].Scope, "why", findings[0].Reason)
		return
	}
	l.log.Info("applied by a run of somebody else", "began", report.Time, "outcome", t.Result.Outcome, "scopes", l.book.revisions())
}

// othersTrial is somebody else's run as its report tells it.
func (s *stateDir) othersTrial(report Report, written time.Time) (Trial, error) {
	e := evidence{proof: ProofAgent, id: report.JobID, started: report.Time, found: true, exit: -1, report: report}
	t := Trial{Proof: ProofAgent, Result: e.verdict(), Run: Run{Started: report.Time}}
	t.Result.Ended = written
	if skipped := report.SkippedResource(); t.Result.Success() && skipped != "" {
		// A run that was limited by --tags says so nowhere else.
		t.Result.Outcome, t.Result.Reason = Failed, skipped+" was skipped, so the run may have been limited to tags"
	}
	t.Compiled, t.CompiledFault = s.compiled(&report)
	shown, err := s.shownBetween(report.Time, written)
	if shown != nil {
		t.Shown, t.Run.Bucket = shown, shown.Bucket
	}
	return t, err
}

// shownBetween finds the newest record that the fact left for an agent that
// somebody else started.
func (s *stateDir) shownBetween(begin, end time.Time) (*schemas.Shown, error) {
	files, err := os.ReadDir(filepath.Join(s.dir, shownDir))
	if err != nil {
		if os.IsNotExist(err) {
			return nil, nil
		}
		return nil, fmt.Errorf("look for the fact's records: %w", err)
	}
	var newest *schemas.Shown
	for _, file := range files {
		if !strings.HasPrefix(file.Name(), "pid-") {
			continue
		}
		body, err := os.ReadFile(filepath.Join(s.dir, shownDir, file.Name()))
		if err != nil {
			continue // pruned just now
		}
		shown, err := schemas.ParseShown(body)
		if err != nil || shown.PID == 0 || shown.Run != "" || shown.Time.Before(begin) || shown.Time.After(end) {
			continue
		}
		if newest == nil || shown.Time.After(newest.Time) {
			newest = &shown
		}
	}
	return newest, nil
}
