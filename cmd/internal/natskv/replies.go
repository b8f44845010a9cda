package natskv

import (
	"strconv"
	"strings"
	"sync"

	"github.com/nats-io/nats.go"
)

// replies hands the answers to requests to those who wait for them. One
// subscription serves them all: one for each reading would cost the server as much
// as the reading.
type replies struct {
	mu      sync.Mutex
	inbox   string
	next    uint64
	waiting map[string]chan<- *nats.Msg // by the second last part of the reply subject
}

// expect prepares for n answers, which come on the channel. Their reply subjects
// are what it returns, with anything but a dot behind it. After forget they are
// dropped.
func (r *replies) expect(nc *nats.Conn, n int) (subject string, answers <-chan *nats.Msg, forget func(), err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.inbox == "" {
		inbox := nc.NewInbox()
		if _, err := nc.Subscribe(inbox+".*.*", r.take); err != nil {
			return "", nil, nil, err
		}
		r.inbox, r.waiting = inbox, map[string]chan<- *nats.Msg{}
	}
	r.next++
	id := strconv.FormatUint(r.next, 36)
	out := make(chan *nats.Msg, n)
	r.waiting[id] = out
	return r.inbox + "." + id + ".", out, func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.waiting, id)
	}, nil
}

// take hands an answer on; one that nobody waits for, or that is one too many, is dropped.
func (r *replies) take(m *nats.Msg) {
	r.mu.Lock()
	defer r.mu.Unlock()
	id, _, _ := strings.Cut(strings.TrimPrefix(m.Subject, r.inbox+"."), ".")
	select {
	case r.waiting[id] <- m:
	default:
	}
}

// refused reports whether the subject is the one on which answers come: then
// nothing is heard, and the next request has to ask for it anew.
func (r *replies) refused(subject string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	deaf := r.inbox != "" && strings.HasPrefix(subject, r.inbox)
	if deaf {
		r.inbox = ""
	}
	return deaf
}
