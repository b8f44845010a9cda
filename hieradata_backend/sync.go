package hieradata

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/bellpull/bellpull/schemas"
)

// Config says what is kept where. Zero durations mean the defaults.
type Config struct {
	Store    Store
	Dir      string        // of the data files; made with mode 0750 if it is missing
	Prefixes []string      // scopes to keep, by leading segments: group covers group and group/web; none = all
	Log      hclog.Logger  // nil = none
	Resync   time.Duration // full load this often, besides those that are asked for; default 10m
	Beat     time.Duration // confirm this often that the files are current; default 15s
	Confirm  time.Duration // look this much later again at what another bucket id lacks; default 10s
	Check    time.Duration // every file is verified once in this time, a few at a time; default 1h

	// Group is the group that may read the files; nil = what the system gives them.
	Group *int
	// Again has every file verified at once. A nil channel never does.
	Again <-chan struct{}
	// Synced is called when a full load has ended, with the number of scopes shown.
	Synced func(scopes int)
	// Alive is called at least once a Beat as long as the sync works.
	Alive func()
}

func (c Config) group() int {
	if c.Group == nil {
		return -1
	}
	return *c.Group
}

const (
	loadTimeout = 5 * time.Minute // enough for 100,000 scopes over a slow line
	readTimeout = 5 * time.Second
	retryFirst  = 100 * time.Millisecond
	retryMost   = 30 * time.Second
	gathering   = 5 * time.Millisecond // announcements are taken together for this long
	readAtOnce  = 32                   // scopes in one round trip
	aliveEach   = 1000                 // scopes of a full load between two signs of life
	allAtOnce   = 8                    // if one scope in so many has changed, all are read in one go
)

// Sync keeps one directory equal to one bucket.
type Sync struct {
	cfg    Config
	mirror *mirror

	full   bool                     // everything has to be compared again
	loaded bool                     // it has been since the start
	wanted map[schemas.Scope]uint64 // announced revisions that have not been read
	heard  uint64                   // highest revision announced
	again  bool                     // it is time for the second look at scopes in doubt
	due    int                      // lists to be verified
	turn   int                      // the next of them
	target *Position                // what the files have to reach to be current as of then
}

// New returns a sync that has not begun.
func New(cfg Config) *Sync {
	if cfg.Resync == 0 {
		cfg.Resync = 10 * time.Minute
	}
	if cfg.Beat == 0 {
		cfg.Beat = 15 * time.Second
	}
	if cfg.Confirm == 0 {
		cfg.Confirm = 10 * time.Second
	}
	if cfg.Check == 0 {
		cfg.Check = time.Hour
	}
	if cfg.Synced == nil {
		cfg.Synced = func(int) {}
	}
	if cfg.Alive == nil {
		cfg.Alive = func() {}
	}
	if cfg.Log == nil {
		cfg.Log = hclog.NewNullLogger()
	}
	covered := prefixes{}
	for _, p := range cfg.Prefixes {
		covered = append(covered, strings.TrimRight(p, "/"))
	}
	if len(covered) == 0 {
		covered = prefixes{""}
	}
	cfg.Prefixes = covered
	return &Sync{cfg: cfg, wanted: map[schemas.Scope]uint64{}}
}

// Run keeps the directory equal to the bucket until ctx ends, which is no error.
// It waits out a store that is away. The errors are those of the directory at the
// start, and of a store that ends its announcements.
func (s *Sync) Run(ctx context.Context) error {
	return s.with(func() error {
		notices, err := s.cfg.Store.Changes(ctx)
		if err != nil {
			return fmt.Errorf("ask for changes: %w", err)
		}
		s.full = false // the first announcement is a resync
		return s.follow(ctx, notices)
	})
}

// Once brings the directory in line with the bucket and returns.
func (s *Sync) Once(ctx context.Context) error {
	return s.with(func() error {
		if err := s.work(ctx); err != nil {
			return err
		}
		if len(s.mirror.doubt) == 0 {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(s.cfg.Confirm):
		}
		s.again = true
		return s.work(ctx)
	})
}

func (s *Sync) with(run func() error) (err error) {
	s.mirror, err = openMirror(s.cfg)
	if err != nil {
		return err
	}
	s.full = true
	return errors.Join(run(), s.mirror.close())
}

func (s *Sync) follow(ctx context.Context, notices <-chan schemas.Notice) error {
	resync, beat, check := time.NewTicker(s.cfg.Resync), time.NewTicker(s.cfg.Beat), time.NewTicker(max(s.cfg.Check/lists, 1))
	defer resync.Stop()
	defer beat.Stop()
	defer check.Stop()
	var retry, again <-chan time.Time // nil while there is nothing to wait for
	pause := retryFirst
	for {
		s.cfg.Alive()
		if retry == nil {
			err := s.work(ctx)
			switch {
			case ctx.Err() != nil:
				return nil
			case err != nil:
				s.cfg.Log.Warn("the data files may be behind", "error", err, "retry_in", pause)
				retry = time.After(pause/2 + rand.N(pause))
				pause = min(2*pause, retryMost)
			default:
				pause = retryFirst
			}
			if again == nil && len(s.mirror.doubt) > 0 {
				again = time.After(s.cfg.Confirm)
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case n, ok := <-notices:
			if !ok {
				if ctx.Err() != nil {
					return nil
				}
				return fmt.Errorf("the announcements have ended: %w", schemas.ErrUnavailable)
			}
			if s.note(n, notices) {
				retry = nil // the connection is new: no need to wait
			}
		case <-retry:
			retry = nil
		case <-again:
			again, s.again = nil, true
		case <-resync.C:
			s.full = true
		case <-check.C:
			s.due = max(s.due, 1)
		case <-s.cfg.Again:
			s.due = lists
		case <-beat.C:
			if retry == nil {
				s.aim(ctx)
			}
		}
	}
}

// note remembers an announcement, and those that come with it. It reports
// whether everything is to be read again.
func (s *Sync) note(n schemas.Notice, more <-chan schemas.Notice) (resync bool) {
	enough := time.After(gathering)
	for {
		switch {
		case n.Resync:
			s.full, resync = true, true
		default:
			s.heard = max(s.heard, n.Revision)
			if n.Scope != "" && s.mirror.covers(n.Scope) && !s.mirror.knows(n.Scope, n.Revision) {
				s.wanted[n.Scope] = max(s.wanted[n.Scope], n.Revision)
			}
		}
		select {
		case next, ok := <-more:
			if !ok {
				return resync // the caller finds it closed too
			}
			n = next
		case <-enough:
			return resync
		}
	}
}
