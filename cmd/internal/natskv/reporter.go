package natskv

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/bellpull/bellpull/schemas"
)

const (
	// reportEvery is the least time between two statuses of a node: a node that
	// changes its mind all the time is not the bucket's burden.
	reportEvery = time.Second
	// A status is repeated after repeatMin to repeatMax, so that a node that is
	// silent for longer than a day is known to be.
	repeatMin = 20 * time.Hour
	repeatMax = 24 * time.Hour
	// sendTimeout is for one attempt, and longReport the longest pause before the next.
	sendTimeout = 5 * time.Second
	longReport  = time.Minute
	// lastWord is for the status that is unsent when the reporter ends.
	lastWord = time.Second
)

// Reporter keeps a node's status in the bucket as it was last reported, through
// outages of NATS too.
type Reporter struct {
	b       *Bucket
	subject string

	mu     sync.Mutex
	latest []byte // nil = nothing was reported
	unsent bool
	wake   chan struct{}
	end    context.CancelFunc
	done   chan struct{}
}

// Reporter starts a reporter for the node of [Config.Node]. Close it before the bucket.
func (b *Bucket) Reporter() (*Reporter, error) {
	token, err := nodeToken(b.cfg.Node)
	if err != nil {
		return nil, err
	}
	ctx, end := context.WithCancel(context.Background())
	r := &Reporter{b: b, subject: b.status(token), wake: make(chan struct{}, 1), end: end, done: make(chan struct{})}
	go func() {
		defer close(r.done)
		r.run(ctx)
	}()
	return r, nil
}

// Report tells the node's status; only the newest is sent. It never blocks.
func (r *Reporter) Report(s schemas.Status) {
	body, err := s.Marshal()
	if err != nil {
		r.b.link.warn("the node's status cannot be written", "error", err)
		return
	}
	r.mu.Lock()
	r.latest, r.unsent = body, true
	r.mu.Unlock()
	select {
	case r.wake <- struct{}{}:
	default: // it is awake
	}
}

// Close ends the reporter. A status that is unsent gets one more second.
func (r *Reporter) Close() {
	r.end()
	<-r.done
	if body := r.due(false); body != nil {
		ctx, cancel := context.WithTimeout(context.Background(), lastWord)
		defer cancel()
		// The next watcher reports anew.
		_ = r.send(ctx, body)
	}
}

// due is what is to be sent: what is unsent, or with repeat the latest; nil = nothing.
func (r *Reporter) due(repeat bool) []byte {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.unsent || repeat {
		return r.latest
	}
	return nil
}

func (r *Reporter) run(ctx context.Context) {
	tries := 0
	for wait := time.Duration(-1); ; {
		// Without an end there is only a word to wait for; a pause is not cut short by one.
		wake := r.wake
		if wait >= 0 && wait <= longReport {
			wake = nil
		}
		if wait < 0 {
			wait = repeatMin + rand.N(repeatMax-repeatMin)
		}
		timer := time.NewTimer(wait)
		repeat := false
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-wake:
		case <-timer.C:
			repeat = wake != nil
		}
		timer.Stop()
		body := r.due(repeat)
		if wait = -1; body == nil {
			continue
		}
		attempt, cancel := context.WithTimeout(ctx, sendTimeout)
		err := r.send(attempt, body)
		cancel()
		switch {
		case ctx.Err() != nil:
			return
		case err == nil:
			wait, tries = reportEvery, 0
		default:
			if tries == 0 {
				r.b.link.warn("the node's status was not taken; it is sent again", "error", err)
			}
			wait = min(time.Second<<min(tries, 6), longReport) / 2
			wait += rand.N(wait)
			tries++
		}
	}
}

// send sends a status until JetStream has stored it.
func (r *Reporter) send(ctx context.Context, body []byte) error {
	m := nats.NewMsg(r.subject)
	m.Data = body
	if _, err := r.b.stored(r.b.requests(ctx, []*nats.Msg{m})[0]); err != nil {
		return fmt.Errorf("report status: %w", err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if string(r.latest) == string(body) {
		r.unsent = false
	}
	return nil
}
