package main

import (
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/bellpull/bellpull/cmd/internal/service"
)

// tardy is how long a sync may be silent until the daemon counts as hanging. A
// reading may take 5 s, and a turn of the loop 15 s.
const tardy = 90 * time.Second

// board shows the service manager where the syncs of all buckets stand.
type board struct {
	manager *service.Manager

	mu     sync.Mutex
	scopes []int       // by bucket; -1 = no full sync yet
	seen   []time.Time // when each was alive last
	ready  bool
}

func newBoard(buckets int, manager *service.Manager) *board {
	b := &board{manager: manager, scopes: make([]int, buckets), seen: make([]time.Time, buckets)}
	for i := range buckets {
		b.scopes[i], b.seen[i] = -1, time.Now()
	}
	manager.Status("waiting for the first full sync")
	return b
}

// synced says that a full sync of a bucket has ended.
func (b *board) synced(bucket, scopes int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.scopes[bucket] = scopes
	var counts []string
	for _, n := range b.scopes {
		if n < 0 {
			return
		}
		counts = append(counts, fmt.Sprint(n))
	}
	if !b.ready {
		b.ready = true
		b.manager.Ready()
	}
	b.manager.Status("data files of " + strings.Join(counts, " + ") + " scopes")
}

// alive says that the sync of a bucket works. The manager hears it as long as all do.
func (b *board) alive(bucket int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	b.seen[bucket] = now
	for _, at := range b.seen {
		if now.Sub(at) > tardy {
			return
		}
	}
	b.manager.Alive()
}
