//go:build unix

package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"

	"github.com/bellpull/bellpull/schemas"
)

// lockStore keeps a second server off the store: two would destroy it, and NATS
// does not look. The lock ends with the process, however that ends.
func lockStore(dir string) (unlock func(), err error) {
	f, err := os.OpenFile(filepath.Join(dir, "bellpull.lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock the store: %w", err)
	}
	err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		err = fmt.Errorf("%w: another server is using it", schemas.ErrConflict)
	}
	if err != nil {
		_ = f.Close()
		return nil, fmt.Errorf("lock the store %s: %w", dir, err)
	}
	return func() { _ = f.Close() }, nil
}
