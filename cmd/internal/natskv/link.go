package natskv

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
)

var (
	errAway   = errors.New("not connected")
	errLost   = errors.New("the connection was lost")
	errClosed = errors.New("the connection is closed")
)

// link knows what nats.go's callbacks told about the connection. It never asks
// the connection itself: nats.go holds that one's lock for as long as it tries
// to reconnect, which no deadline of ours would end.
type link struct {
	warn   func(msg string, args ...any)
	prompt bool

	mu     sync.Mutex
	up     chan struct{} // closed while the connection stands
	isUp   bool
	since  time.Time // of the last change of isUp
	tries  int       // to reconnect, without a calm time between them
	reason error     // why it does not stand
	calls  map[*call]struct{}
	alarms map[chan struct{}]struct{}
	ended  chan struct{} // closed by the bucket's Close
}

// call is something that waits for the server.
type call struct {
	cancel  context.CancelCauseFunc
	refused func(refusal) // must not block
}

// refusal says that the credentials do not allow a subject.
type refusal struct {
	subject string
	err     error
}

func newLink(warn func(string, ...any), prompt bool) *link {
	if warn == nil {
		warn = func(string, ...any) {}
	}
	return &link{
		warn: warn, prompt: prompt, up: make(chan struct{}), ended: make(chan struct{}),
		calls: make(map[*call]struct{}), alarms: make(map[chan struct{}]struct{}),
	}
}

// wait returns when the connection stands, or with the reason why it does not.
func (l *link) wait(ctx context.Context) error {
	l.mu.Lock()
	up := l.up
	l.mu.Unlock()
	select {
	case <-up:
		return nil
	default:
	}
	select {
	case <-up:
		return nil
	case <-l.ended:
		return errClosed
	case <-ctx.Done():
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.reason != nil {
			return fmt.Errorf("%w: %w", errAway, l.reason)
		}
		return errAway
	}
}

// begin returns a context that also ends, with its cause, when the connection
// is lost. Whatever NATS refuses until the end is handed to refused.
func (l *link) begin(ctx context.Context, refused func(refusal)) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	c := &call{cancel, refused}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.calls[c] = struct{}{}
	if !l.isUp {
		cancel(errLost)
	}
	return ctx, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.calls, c)
		cancel(nil)
	}
}

// alarm returns a channel that holds a value after each (re)connect and after
// each loss of messages.
func (l *link) alarm() (alarms <-chan struct{}, stop func()) {
	ch := make(chan struct{}, 1)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.alarms[ch] = struct{}{}
	if l.isUp {
		ch <- struct{}{}
	}
	return ch, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.alarms, ch)
	}
}

func (l *link) stands() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.isUp
}

func (l *link) ring() {
	for ch := range l.alarms {
		select {
		case ch <- struct{}{}:
		default: // one is waiting already
		}
	}
}

func (l *link) connected(*nats.Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.isUp {
		l.isUp, l.since, l.reason = true, time.Now(), nil
		close(l.up)
	}
	l.ring()
}

func (l *link) disconnected(_ *nats.Conn, err error) {
	if l.drop(err) {
		l.warn("connection to NATS lost", "error", err)
	}
}

// drop notes that the connection is gone, and reports whether it stood and
// was not closed by us.
func (l *link) drop(err error) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err != nil {
		l.reason = err
	}
	if !l.isUp {
		return false
	}
	if time.Since(l.since) > calm {
		l.tries = 0
	}
	l.isUp, l.since, l.up = false, time.Now(), make(chan struct{})
	for c := range l.calls {
		c.cancel(errLost)
	}
	select {
	case <-l.ended:
		return false
	default:
		return true
	}
}

// failed hears why there is no connection.
func (l *link) failed(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.isUp {
		l.reason = err
	}
}

// fault hears the errors that come without being asked for.
func (l *link) fault(_ *nats.Conn, _ *nats.Subscription, err error) {
	switch {
	case errors.Is(err, nats.ErrSlowConsumer):
		l.mu.Lock()
		defer l.mu.Unlock()
		l.ring()
	case errors.Is(err, nats.ErrPermissionViolation):
		r := refusal{quoted(err.Error()), err}
		l.refuse(r)
		l.warn("NATS refused a subject", "subject", r.subject)
	default:
		l.failed(err)
	}
}

func (l *link) refuse(r refusal) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for c := range l.calls {
		c.refused(r)
	}
}

// quoted returns the subject that the server names in the text of a refusal,
// which is the only place where it does.
func quoted(text string) string {
	_, rest, _ := strings.Cut(text, `"`)
	subject, _, _ := strings.Cut(rest, `"`)
	return subject
}

// A connection that stood for less than calm counts as one more failed attempt.
const (
	calm        = 30 * time.Second
	firstDelay  = 4 * time.Second
	secondDelay = 2 * time.Second
	longDelay   = 30 * time.Second

	promptDelay     = 50 * time.Millisecond
	longPromptDelay = time.Second
)

// delay is how long to wait before the servers are tried again: at first anything
// up to 4 s, so that a fleet does not come back at once, then 2 s doubling to 30 s,
// ±50 %.
func (l *link) delay(int) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	tries := l.tries
	l.tries++
	if l.prompt {
		d := min(promptDelay<<min(tries, 10), longPromptDelay)
		return d/2 + rand.N(d)
	}
	if tries == 0 {
		return rand.N(firstDelay)
	}
	d := min(secondDelay<<min(tries-1, 5), longDelay)
	return d/2 + rand.N(d)
}

func (l *link) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	select {
	case <-l.ended:
		return
	default:
	}
	close(l.ended)
	for c := range l.calls {
		c.cancel(errClosed)
	}
}
