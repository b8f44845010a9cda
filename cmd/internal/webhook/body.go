package webhook

import (
	"errors"
	"io"
	"net/http"
	"sync/atomic"
	"time"
)

const (
	// bodyTime is for a whole body to arrive.
	bodyTime = 10 * time.Second
	// bodyBudget is for all bodies that are being read at a moment, in bytes: what
	// strangers send is held in memory until its signature can be checked.
	bodyBudget = 16 << 20
	chunk      = 8 << 10
)

var (
	errTooLarge = errors.New("the body is too large")
	errBusy     = errors.New("too much is being sent at the moment")
	errSlow     = errors.New("the body did not arrive in time")
	errBody     = errors.New("the body did not arrive whole")
)

// budget is what is left of [bodyBudget].
type budget struct{ used atomic.Int64 }

func (b *budget) take(n int64) bool {
	if b.used.Add(n) <= bodyBudget {
		return true
	}
	b.used.Add(-n)
	return false
}

func (b *budget) give(n int64) { b.used.Add(-n) }

// read reads a body of at most most bytes. The caller calls done when it needs
// the body no more.
func (b *budget) read(w http.ResponseWriter, r *http.Request, most int64) (body []byte, done func(), err error) {
	taken := int64(0)
	done = func() { b.give(taken) }
	if r.ContentLength > most {
		return nil, done, errTooLarge
	}
	// Without a connection of its own, as in a test, there is no deadline to set.
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(bodyTime))
	limited := http.MaxBytesReader(w, r.Body, most)
	first := int64(chunk)
	if r.ContentLength >= 0 {
		first = min(first, r.ContentLength+1) // one more to see the end in
	}
	for {
		if len(body) == cap(body) { // one chunk, then doubled: at most twice what has come
			grown := max(2*int64(cap(body)), first)
			if !b.take(grown - int64(cap(body))) {
				return nil, done, errBusy
			}
			taken += grown - int64(cap(body))
			body = append(make([]byte, 0, grown), body...)
		}
		n, err := limited.Read(body[len(body):cap(body)])
		body = body[:len(body)+n]
		var tooLarge *http.MaxBytesError
		var late interface{ Timeout() bool }
		switch {
		case err == nil:
		case errors.Is(err, io.EOF):
			return body, done, nil
		case errors.As(err, &tooLarge):
			return nil, done, errTooLarge
		case errors.As(err, &late) && late.Timeout():
			return nil, done, errSlow
		default:
			return nil, done, errBody
		}
	}
}
