package hieradata_test

import (
	"context"
	"fmt"
	"sync"
	"time"

	hieradata "github.com/bellpull/bellpull/hieradata_backend"
	"github.com/bellpull/bellpull/schemas"
)

// store is a bucket in a map.
type store struct {
	mu       sync.Mutex
	bucket   string
	sequence uint64
	messages map[schemas.Scope]message
	notices  chan schemas.Notice // nil until Changes
	away     bool                // no answers
	mute     bool                // no announcements
	lag      map[schemas.Scope]message
	loads    int    // calls of All
	loading  func() // called, with mu held, before All hands anything over
	onAll    func() // called, with mu held, when All has handed everything over
}

type message struct {
	revision uint64
	body     string // "" = a deletion marker
}

func newStore() *store {
	return &store{bucket: "b1", sequence: 1, messages: map[schemas.Scope]message{}}
}

// put stores a body, "" for a deletion, and announces it.
func (s *store) put(scope schemas.Scope, body string) uint64 {
	s.mu.Lock()
	s.sequence++
	m := message{s.sequence, body}
	s.messages[scope] = m
	notices := s.notices
	if s.mute {
		notices = nil
	}
	s.mu.Unlock()
	if notices != nil {
		notices <- schemas.Notice{Scope: scope, Revision: m.revision}
	}
	return m.revision
}

func (s *store) change(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
}

func (s *store) loaded() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.loads
}

func (s *store) reading(scope schemas.Scope, m message) schemas.ScopeReading {
	r := schemas.ScopeReading{Scope: scope, Revision: m.revision, Deleted: m.revision > 0 && m.body == ""}
	if m.body != "" {
		r.Document, r.Err = schemas.ParseDocument([]byte(m.body))
	}
	return r
}

func (s *store) All(_ context.Context, each func(schemas.ScopeReading) error) (hieradata.Position, error) {
	at, err := s.Position(context.Background())
	if err != nil {
		return at, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.loads++
	if s.loading != nil {
		s.loading()
	}
	for scope, m := range s.messages {
		if err := each(s.reading(scope, m)); err != nil {
			return at, err
		}
	}
	if s.onAll != nil {
		s.onAll()
		at.Bucket, at.Sequence = s.bucket, s.sequence
	}
	return at, nil
}

func (s *store) Revisions(ctx context.Context, each func(schemas.Scope, uint64, bool) error) (hieradata.Position, error) {
	return s.All(ctx, func(r schemas.ScopeReading) error { return each(r.Scope, r.Revision, r.Deleted) })
}

func (s *store) Read(_ context.Context, scopes []schemas.Scope) (schemas.Reading, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.away {
		return schemas.Reading{}, fmt.Errorf("the store is away: %w", schemas.ErrUnavailable)
	}
	out := schemas.Reading{Bucket: s.bucket}
	for _, scope := range scopes {
		m, lagging := s.lag[scope]
		if !lagging {
			m = s.messages[scope]
		}
		out.Scopes = append(out.Scopes, s.reading(scope, m))
	}
	return out, nil
}

func (s *store) Changes(ctx context.Context) (<-chan schemas.Notice, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.notices = make(chan schemas.Notice)
	out := make(chan schemas.Notice)
	in := s.notices
	go func() {
		defer close(out)
		select {
		case out <- schemas.Notice{Resync: true}:
		case <-ctx.Done():
		}
		for {
			select {
			case <-ctx.Done():
				return
			case n := <-in:
				select {
				case out <- n:
				case <-ctx.Done():
					return
				}
			}
		}
	}()
	return out, nil
}

func (s *store) Position(context.Context) (hieradata.Position, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.away {
		return hieradata.Position{}, fmt.Errorf("the store is away: %w", schemas.ErrUnavailable)
	}
	return hieradata.Position{Bucket: s.bucket, Sequence: s.sequence, At: time.Now()}, nil
}

func entries(text string) string { return `{"bellpull":1,"entries":{` + text + `}}` }
