package puppet

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/bellpull/bellpull/schemas"
)

// Loop keeps a node's applied state equal to its wanted state, one run at a time.
type Loop struct {
	cfg   LoopConfig
	log   hclog.Logger
	state *stateDir

	wanted  Wanted
	book    Book
	booked  bool      // what is applied stands on disk
	saved   journal   // as it stands on disk
	saveAt  time.Time // when it is written at the latest; zero = nothing waits for that
	run     *Run      // under way
	retry   *Retry
	last    time.Time            // start of the last run
	seen    time.Time            // when the report was written that was looked at last
	pause   time.Time            // no run before this
	until   time.Time            // the last decision holds until this; zero = until something happens
	noticed map[string]time.Time // when each due was first seen
	since   time.Time            // since when new dues have been coming; zero = there is none
	ended   chan ending
	waits   sync.WaitGroup

	limit   schemas.Limit // as last known
	line    line
	renewed chan schemas.Permit // of the run under way

	reported reported
	told     schemas.Status // what was told last

	hints    map[schemas.Scope]uint64 // revisions that were announced
	readAt   time.Time                // when to read next
	failures int                      // readings in a row that lacked something
	said     map[string]string        // what was logged last, by subject: each thing is said once
	faults   map[string]string        // what the last reading lacked, by subject
}

// ending is the end of a run.
type ending struct {
	result     Result
	notStarted error
	err        error // the wait was given up; the run goes on
}

// wakeAtLeast bounds how long it can go unnoticed that the clock was set.
const wakeAtLeast = time.Minute

// NewLoop returns a loop.
func NewLoop(cfg LoopConfig) *Loop {
	if cfg.Proof == "" {
		cfg.Proof = ProofAgent
	}
	if cfg.Resync <= 0 {
		cfg.Resync = 10 * time.Minute
	}
	if cfg.Logger == nil {
		cfg.Logger = hclog.NewNullLogger()
	}
	if cfg.Random == nil {
		cfg.Random = rand.Float64
	}
	if cfg.PermitsUnavailable == 0 {
		cfg.PermitsUnavailable = defaultUnavailable
	}
	if cfg.Report == nil {
		cfg.Report = func(schemas.Status) {}
	}
	if cfg.Alive == nil {
		cfg.Alive = func() {}
	}
	return &Loop{
		cfg: cfg, log: cfg.Logger, state: newStateDir(cfg.Dir), ended: make(chan ending, 1), renewed: make(chan schemas.Permit),
		noticed: map[string]time.Time{}, hints: map[schemas.Scope]uint64{}, said: map[string]string{},
	}
}

// Run watches until ctx ends, which is no error. A run that is under way then
// goes on, and the next watcher picks it up. notices are hints; if they end
// before ctx does, Run returns an error. Where another watcher is at work in the
// same directory the error matches [schemas.ErrConflict].
func (l *Loop) Run(ctx context.Context, notices <-chan schemas.Notice) error {
	unlock, err := l.state.lock()
	if err != nil {
		return err
	}
	defer unlock()
	defer l.waits.Wait()
	defer l.quit()
	l.load()
	if l.run != nil {
		l.log.Info("a run of an earlier watcher is taken over", "run", l.run.ID, "pid", l.run.Process.PID, "started", l.run.Started)
		l.wait(ctx, *l.run)
	}
	_ = l.read(ctx) // what is lacking is logged and asked for again
	for {
		l.cfg.Alive()
		l.step(ctx)
		wake := time.NewTimer(time.Until(l.wake()))
		select {
		case <-ctx.Done():
			wake.Stop()
			_ = l.save() // a failure has been logged
			return nil
		case notice, open := <-notices:
			if !open {
				wake.Stop()
				if ctx.Err() != nil {
					return nil
				}
				return errors.New("the subscription to changes has ended")
			}
			l.hint(notice)
		case answer, open := <-l.line.answers:
			l.answered(answer, open)
		case permit := <-l.renewed:
			if l.run != nil {
				l.run.Permit = &permit
				_ = l.save() // a failure has been logged
			}
		case end := <-l.ended:
			if l.failures > 0 { // what is wanted is not known for sure: ask before the run is judged
				_ = l.read(ctx)
			}
			l.finish(end)
		case <-wake.C:
		}
		wake.Stop()
		if !time.Now().Before(l.readAt) {
			_ = l.read(ctx)
		}
	}
}

// Once reads, runs if a run is owed, whatever was tried before, and waits for the
// run's end. An error says why what is wanted is not applied. With dryRun it only
// logs what it would do.
func (l *Loop) Once(ctx context.Context, dryRun bool) error {
	if !dryRun {
		unlock, err := l.state.lock()
		if err != nil {
			return err
		}
		defer unlock()
	}
	defer l.waits.Wait()
	defer l.quit()
	if l.load(); l.run != nil && !dryRun {
		l.wait(ctx, *l.run)
		if _, err := l.await(); err != nil {
			return err
		}
	}
	if err := l.read(ctx); err != nil {
		return err
	}
	if l.run != nil {
		return fmt.Errorf("run %s is under way, pid %d", l.run.ID, l.run.Process.PID)
	}
	l.others()
	s := l.situation()
	s.AtOnce = true
	d := s.Decide()
	for d.Action == Queue && !dryRun {
		if err := l.standInLine(ctx); err != nil {
			return fmt.Errorf("a run is owed, but there is no permit: %w", err)
		}
		s.Permit, s.Now = l.permitState(), time.Now()
		d = s.Decide()
	}
	switch {
	case (d.Action == Go || d.Action == Queue) && dryRun:
		l.log.Info("a run is owed", "why", d.Why, "tags", d.Tags, "noop", d.Noop)
		return nil
	case d.Action == Go:
		if err := l.start(ctx, d); err != nil {
			return err
		}
		result, err := l.await()
		switch {
		case err != nil:
			return err
		case result.Outcome == NotRun:
			return errors.New(result.Reason)
		case l.retry != nil:
			return errors.New(l.retry.Why)
		}
		return nil
	case d.Action == Wait:
		return fmt.Errorf("a run is owed, but %s", d.Why)
	}
	l.log.Info("no run", "why", d.Why)
	return nil
}

// await waits for the end of the run under way and judges it.
func (l *Loop) await() (Result, error) {
	end := <-l.ended
	if end.err != nil {
		return Result{}, end.err
	}
	l.finish(end)
	err := l.save()
	l.report(l.situation().Decide())
	return end.result, err
}

// load takes over what an earlier watcher left, a run under way included.
func (l *Loop) load() {
	j, applied, err := l.state.load()
	if err != nil {
		l.log.Error("state of an earlier watcher is lost; what it knew counts as not applied", "error", err)
	}
	l.wanted = j.Wanted.Only(l.cfg.Scopes)
	l.book = Book{Applied: applied, Unproven: j.Unproven}
	l.retry, l.last, l.run = j.Retry, j.Last, j.Run
	l.limit, l.seen, l.reported = j.Limit, j.Seen, j.Reported
	if j.Noticed != nil {
		l.noticed = j.Noticed
	}
	if l.retry != nil { // the clock may have been set back since
		l.retry.At = earlier(l.retry.At, time.Now().Add(maxBackoff))
	}
	if now := time.Now(); l.needsPermit() && !j.Unknown.IsZero() { // nobody answered the watcher before either
		l.line.Unknown = earlier(j.Unknown, now)
		if !j.Alone.IsZero() {
			l.line.Alone = earlier(j.Alone, now.Add(l.aloneWithin()))
		}
	}
	for scope, a := range applied.Scopes {
		// What was applied was known: its absence has to be believed first.
		if _, known := l.wanted.Scopes[scope]; !known && slices.Contains(l.cfg.Scopes, scope) {
			l.wanted.Scopes[scope] = wantedOf(applied.Bucket, a)
		}
	}
}

// wake is when the loop has to look again though nothing has happened.
func (l *Loop) wake() time.Time {
	at := earlier(earlier(l.readAt, l.saveAt), time.Now().Add(wakeAtLeast))
	if l.run == nil {
		at = earlier(at, l.until)
		if len(l.noticed) > 0 { // somebody else's run may be proof meanwhile
			at = earlier(at, time.Now().Add(pollReport))
		}
		if expiry := l.wanted.nextExpiry(time.Now().Add(-l.cfg.Timing.Skew)); !expiry.IsZero() {
			at = earlier(at, expiry.Add(l.cfg.Timing.Skew))
		}
	}
	return at
}
