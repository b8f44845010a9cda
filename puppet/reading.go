package puppet

import (
	"context"
	"fmt"
	"time"

	"github.com/bellpull/bellpull/schemas"
)

const (
	// readTimeout is long for one reading, and short for one of thousands that a
	// change of a scope of all nodes lets loose at once: who gives up too soon asks twice.
	readTimeout = 10 * time.Second
	// An incomplete reading is repeated soon, then less and less soon.
	firstReadAgain = 250 * time.Millisecond
	maxReadAgain   = time.Minute
	// hintTries is how many readings a notice is trusted for that nothing bears out.
	hintTries = 8
)

// hint takes a notice: it is worth a reading unless it is of what is known.
func (l *Loop) hint(n schemas.Notice) {
	switch known, isKnown := l.wanted.Scopes[n.Scope]; {
	case n.Resync:
		clear(l.hints)
	case isKnown && known.Bucket == l.wanted.Bucket && n.Revision <= known.Revision:
		l.log.Debug("no reading", "why", "revision is known", "scope", n.Scope, "revision", n.Revision)
		return
	default:
		l.hints[n.Scope] = max(l.hints[n.Scope], n.Revision)
	}
	l.failures = 0
	l.readAt = time.Now()
}

// read asks what is wanted now. What it cannot learn stays as it was.
func (l *Loop) read(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	reading, err := l.cfg.Store.Read(ctx, l.cfg.Scopes)
	if err != nil {
		l.say("bucket", remark{text: "cannot be read: " + err.Error()})
		l.faults = map[string]string{"bucket": clip("cannot be read: " + err.Error())}
		l.readAgain(true)
		return err
	}
	if reading.At.IsZero() {
		reading.At = time.Now()
	}
	if reading.Limit.Known {
		l.limit = reading.Limit
	}
	before := l.wanted
	next, remarks := l.wanted.take(reading, l.cfg.Digester)
	l.wanted = next
	incomplete, spoken := false, map[string]bool{}
	l.faults = map[string]string{}
	for _, r := range remarks {
		subject := "bucket"
		if r.scope != "" {
			subject = string(r.scope)
		}
		l.say(subject, r)
		spoken[subject], l.faults[subject] = true, clip(r.text)
		incomplete = incomplete || r.again
	}
	for _, subject := range append([]schemas.Scope{"bucket"}, l.cfg.Scopes...) {
		if !spoken[string(subject)] {
			delete(l.said, string(subject))
		}
	}
	if before.Bucket != "" && next.Bucket != before.Bucket {
		l.log.Warn("the bucket has another id: everything was read again", "was", before.Bucket, "is", next.Bucket)
		clear(l.hints)
	}
	for scope, revision := range l.hints {
		if next.Scopes[scope].Revision >= revision {
			delete(l.hints, scope)
		}
	}
	if l.failures >= hintTries {
		clear(l.hints)
	}
	l.readAgain(incomplete || len(l.hints) > 0)
	for _, r := range remarks {
		l.readAt = earlier(l.readAt, r.at)
	}
	return nil
}

// readAgain plans the next reading.
func (l *Loop) readAgain(incomplete bool) {
	if !incomplete {
		l.failures = 0
		// ±10 %, so that a fleet that connected at once does not stay in step.
		l.readAt = time.Now().Add(time.Duration((0.9 + 0.2*l.cfg.Random()) * float64(l.cfg.Resync)))
		return
	}
	wait := maxReadAgain
	if l.failures < hintTries {
		wait = min(wait, firstReadAgain<<l.failures)
	}
	l.failures++
	l.readAt = time.Now().Add(time.Duration((0.5 + l.cfg.Random()) * float64(wait)))
}

// say logs what a reading lacked, once as long as it stays the same.
func (l *Loop) say(subject string, r remark) {
	said := fmt.Sprint(r.fault, r.text)
	if l.said[subject] == said {
		return
	}
	l.said[subject] = said
	if r.fault {
		l.log.Error("reading is incomplete", "subject", subject, "why", r.text)
		return
	}
	l.log.Warn("reading is incomplete", "subject", subject, "why", r.text)
}
