package puppet_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing/synctest"
	"time"

	"github.com/bellpull/bellpull/schemas"
)

const lease = 50 * time.Second

// keeper hands out permits when the test says so.
type keeper struct {
	mu       sync.Mutex
	silent   bool // answers nothing
	asked    int
	waiting  []chan schemas.PermitAnswer
	granted  int
	renewed  []string // handles, as they were given
	released []string
	lapsed   bool // renewals are refused
}

func (k *keeper) Ask(ctx context.Context) <-chan schemas.PermitAnswer {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.asked++
	out, turn := make(chan schemas.PermitAnswer), make(chan schemas.PermitAnswer, 1)
	k.waiting = append(k.waiting, turn)
	go func() {
		defer close(out)
		defer k.gone(turn)
		answers := time.NewTicker(10 * time.Second)
		defer answers.Stop()
		next := k.answer()
		for {
			select {
			case <-ctx.Done():
				return
			case out <- next:
			case granted := <-turn:
				select {
				case out <- granted:
				case <-ctx.Done():
				}
				return
			}
			select {
			case <-ctx.Done():
				return
			case granted := <-turn:
				select {
				case out <- granted:
				case <-ctx.Done():
				}
				return
			case <-answers.C:
				next = k.answer()
			}
		}
	}()
	return out
}

func (k *keeper) answer() schemas.PermitAnswer {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.silent {
		return schemas.PermitAnswer{Err: fmt.Errorf("%w: no keeper answers", schemas.ErrUnavailable)}
	}
	return schemas.PermitAnswer{Waiting: true}
}

func (k *keeper) gone(turn chan schemas.PermitAnswer) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if i := slices.Index(k.waiting, turn); i >= 0 {
		k.waiting = slices.Delete(k.waiting, i, i+1)
	}
}

// grant gives the first in line a permit, if somebody is in line.
func (k *keeper) grant() {
	k.mu.Lock()
	if len(k.waiting) > 0 {
		k.granted++
		k.waiting[0] <- schemas.PermitAnswer{Permit: schemas.Permit{Handle: fmt.Sprintf("p%d", k.granted), Until: time.Now().Add(lease)}}
		k.waiting = k.waiting[1:]
	}
	k.mu.Unlock()
	synctest.Wait()
}

func (k *keeper) set(change func(k *keeper)) {
	k.mu.Lock()
	defer k.mu.Unlock()
	change(k)
}

func (k *keeper) inLine() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return len(k.waiting)
}

func (k *keeper) Renew(_ context.Context, p schemas.Permit) (schemas.Permit, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	switch {
	case k.silent:
		return schemas.Permit{}, schemas.ErrUnavailable
	case k.lapsed || !time.Now().Before(p.Until):
		return schemas.Permit{}, schemas.ErrConflict
	}
	k.renewed = append(k.renewed, p.Handle)
	return schemas.Permit{Handle: p.Handle + "'", Until: time.Now().Add(lease)}, nil
}

func (k *keeper) Release(_ context.Context, p schemas.Permit) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.released = append(k.released, p.Handle)
	return nil
}
