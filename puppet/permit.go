package puppet

import (
	"context"
	"errors"
	"time"

	"github.com/bellpull/bellpull/schemas"
)

// PermitState is how a node stands with its permit. Its zero value needs none.
type PermitState struct {
	Needed  bool
	Held    *schemas.Permit // granted, and not used by a run yet
	Asked   time.Time       // since when it has been in line; zero = it is not
	Unknown time.Time       // since when nobody has answered; zero = somebody does, or it has not asked
	Alone   time.Time       // when it runs without one, because nobody answers; zero = never
}

// InLine reports whether the node waits for a permit, or has just been granted one.
func (p PermitState) InLine() bool { return !p.Asked.IsZero() }

// missing says why a run has to wait for a permit, and until when at most; "" =
// it has not.
func (p PermitState) missing(now time.Time) (until time.Time, why string) {
	// Also in line it is looked at whether a run is blocked.
	until = now.Add(pollDisabled)
	switch {
	case !p.Needed, p.Held != nil, !p.Alone.IsZero() && !p.Alone.After(now):
		return time.Time{}, ""
	case !p.Alone.IsZero():
		return earlier(until, p.Alone), "no keeper answers, so the limit is unknown; without a permit from " + p.Alone.UTC().Format(time.RFC3339)
	case !p.Unknown.IsZero():
		return until, "no keeper answers, so the limit is unknown"
	}
	return until, "waiting for a permit"
}

const (
	defaultUnavailable = 10 * time.Minute
	// leastAlone is over how long at least nodes spread that run without a permit.
	leastAlone = 30 * time.Minute
	// releaseTimeout is for giving a permit back; after it the permit frees itself when it lapses.
	releaseTimeout = 5 * time.Second
	// renewAgain is the pause after a renewal that was not answered.
	renewAgain = 2 * time.Second
)

// line is the loop's place in the line for permits.
type line struct {
	PermitState
	answers <-chan schemas.PermitAnswer // nil = not asking
	leave   context.CancelFunc
}

func (l *Loop) aloneWithin() time.Duration { return max(leastAlone, l.cfg.Timing.Splay) }

// needsPermit reports whether a run needs one: there is a limit, or it is not known.
func (l *Loop) needsPermit() bool {
	return l.cfg.Permits != nil && (!l.limit.Known || l.limit.Max > 0)
}

// permitState is where the node stands.
func (l *Loop) permitState() PermitState {
	p := l.line.PermitState
	p.Needed = l.needsPermit()
	return p
}

// queue makes sure that the node stands in line.
func (l *Loop) queue(ctx context.Context) {
	if l.line.answers == nil {
		ctx, cancel := context.WithCancel(ctx)
		l.line.answers, l.line.leave = l.cfg.Permits.Ask(ctx), cancel
		if l.line.Asked.IsZero() {
			l.line.Asked = time.Now()
		}
	}
	patience := l.cfg.PermitsUnavailable
	now := time.Now()
	if patience >= 0 && l.line.Alone.IsZero() && !l.line.Unknown.IsZero() && !l.line.Unknown.Add(patience).After(now) {
		l.line.Alone = now.Add(time.Duration(l.cfg.Random() * float64(l.aloneWithin())))
		l.log.Warn("no keeper has answered for too long: the run starts without a permit", "since", l.line.Unknown, "at", l.line.Alone)
		l.until = earlier(l.until, l.line.Alone)
	}
}

// answered takes one answer from the line.
func (l *Loop) answered(a schemas.PermitAnswer, open bool) {
	switch {
	case !open:
		l.line.answers = nil // the next step asks again, if a permit is still needed
	case a.Err != nil:
		if l.line.Unknown.IsZero() {
			l.line.Unknown = time.Now()
		}
		l.say("permits", remark{text: a.Err.Error()})
	case a.Waiting:
		l.line.Unknown, l.line.Alone = time.Time{}, time.Time{}
		delete(l.said, "permits")
	default:
		l.line.Unknown, l.line.Alone = time.Time{}, time.Time{}
		delete(l.said, "permits")
		l.line.Held = &a.Permit
	}
}

// quit leaves the line; a permit that was granted is given back.
func (l *Loop) quit() {
	if l.line.Held != nil {
		l.giveBack(*l.line.Held)
	}
	l.unqueue()
}

// unqueue forgets the line, and what was granted there: a run has it now.
func (l *Loop) unqueue() {
	if l.line.leave != nil {
		l.line.leave()
	}
	l.line = line{}
}

// giveBack returns a permit in the background. One that has lapsed may be
// somebody else's by now.
func (l *Loop) giveBack(p schemas.Permit) {
	if p.Handle == "" || !time.Now().Before(p.Until) {
		return
	}
	l.waits.Go(func() {
		ctx, cancel := context.WithTimeout(context.Background(), releaseTimeout)
		defer cancel()
		if err := l.cfg.Permits.Release(ctx, p); err != nil {
			l.log.Debug("the permit was not given back; it frees itself", "error", err)
		}
	})
}

// keep renews a run's permit until the run has ended, and then gives it back. At
// the watcher's end it does neither: the next one goes on with what was last told
// by renewed.
func (l *Loop) keep(ctx context.Context, p schemas.Permit, ended <-chan struct{}) {
	if p.Handle == "" {
		return
	}
	l.waits.Go(func() {
		renew := time.NewTimer(time.Until(p.Until) / 3)
		defer renew.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-ended:
				l.giveBack(p)
				return
			case <-renew.C:
			}
			renewed, err := l.cfg.Permits.Renew(ctx, p)
			switch {
			case err == nil:
				p = renewed
				select {
				case l.renewed <- p:
				case <-ctx.Done():
				case <-ended:
				}
				renew.Reset(time.Until(p.Until) / 3)
			case errors.Is(err, schemas.ErrConflict), !time.Now().Before(p.Until):
				l.log.Warn("the permit has lapsed; the run goes on", "error", err)
				return
			default:
				renew.Reset(renewAgain)
			}
		}
	})
}

// standInLine waits until a permit is granted. An error says that nobody answers.
func (l *Loop) standInLine(ctx context.Context) error {
	l.queue(ctx)
	for l.line.Held == nil {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case answer, open := <-l.line.answers:
			if answer.Err != nil {
				return answer.Err
			}
			l.answered(answer, open)
			if !open {
				l.queue(ctx)
			}
		}
	}
	return nil
}
