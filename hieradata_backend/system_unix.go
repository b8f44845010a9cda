//go:build unix

package hieradata

import (
	"errors"
	"io/fs"
	"os"
	"syscall"
)

// lockDirectory keeps other processes out until the file is closed.
func lockDirectory(path string) (*os.File, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		if errors.Is(err, syscall.EWOULDBLOCK) {
			err = errors.New("another bellpull-hiera sync keeps it")
		}
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// groupOf returns the group that a file belongs to.
func groupOf(info fs.FileInfo) int { return int(info.Sys().(*syscall.Stat_t).Gid) }
