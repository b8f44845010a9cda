package gateway

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/bellpull/bellpull/cmd/internal/natskv"
	"github.com/bellpull/bellpull/schemas"
)

const (
	// awayTime is how long a request waits for a connection that does not stand.
	awayTime = 300 * time.Millisecond
	// deadTime is how long a connection that stands may say nothing before a fresh
	// one is tried: a function that was frozen does not know that its own is gone.
	deadTime = 700 * time.Millisecond
)

// store is the bucket for somebody who cannot wait: it says at once when NATS is
// away, and gives up a connection that is silent.
type store struct {
	bucket *natskv.Bucket

	mu      sync.Mutex
	renewed time.Time // when the connection was last given up
}

// Read reads as [natskv.Bucket.Read] does, once more over a fresh connection
// where the standing one does not answer.
func (s *store) Read(ctx context.Context, scopes []schemas.Scope) (schemas.Reading, error) {
	began := time.Now()
	patience := deadTime
	if !s.bucket.Connected() {
		patience = awayTime
	}
	first, cancel := context.WithTimeout(ctx, patience)
	reading, err := s.bucket.Read(first, scopes)
	cancel()
	if !errors.Is(err, schemas.ErrUnavailable) || ctx.Err() != nil || patience == awayTime {
		return reading, err
	}
	s.renew(began)
	return s.bucket.Read(ctx, scopes)
}

// Put writes as [natskv.Bucket.Put] does.
func (s *store) Put(ctx context.Context, scope schemas.Scope, body []byte, expect uint64) (uint64, error) {
	return s.bucket.Put(ctx, scope, body, expect)
}

// renew gives the connection up, unless somebody has done so since began.
func (s *store) renew(began time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.renewed.Before(began) {
		s.renewed = time.Now()
		s.bucket.Reconnect()
	}
}

// ready says why nothing can be published.
func (s *store) ready() error {
	if s.bucket.Connected() {
		return nil
	}
	return fmt.Errorf("%w: there is no connection to NATS", schemas.ErrUnavailable)
}
