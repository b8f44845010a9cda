package factsource

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/google/renameio/v2"
)

// maxFile bounds what is read of a file in the node's directory, in bytes.
const maxFile = 64 << 20

// readPrivate reads a file that only this user or root can have written, and
// tells when it was last changed.
func readPrivate(name string) ([]byte, time.Time, error) {
	// Neither a link nor a pipe that somebody put there is followed or waited for.
	f, err := os.OpenFile(name, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, time.Time{}, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, time.Time{}, err
	}
	owner, ok := info.Sys().(*syscall.Stat_t)
	switch {
	case !info.Mode().IsRegular():
		return nil, time.Time{}, fmt.Errorf("%s is no regular file", filepath.Base(name))
	case ok && owner.Uid != 0 && int(owner.Uid) != os.Geteuid():
		return nil, time.Time{}, fmt.Errorf("%s belongs to user %d", filepath.Base(name), owner.Uid)
	case info.Mode().Perm()&0o022 != 0:
		return nil, time.Time{}, fmt.Errorf("%s may be written by others", filepath.Base(name))
	case info.Size() > maxFile:
		return nil, time.Time{}, fmt.Errorf("%s has %d bytes", filepath.Base(name), info.Size())
	}
	body := make([]byte, info.Size())
	if _, err := io.ReadFull(f, body); err != nil {
		return nil, time.Time{}, fmt.Errorf("read %s: %w", filepath.Base(name), err)
	}
	return body, info.ModTime(), nil
}

// writePrivate replaces a file by body in one step, readable for its owner only.
func writePrivate(name string, body []byte) error {
	// The temporary file must not go to /tmp, which renameio would try.
	f, err := renameio.NewPendingFile(name, renameio.WithTempDir(filepath.Dir(name)), renameio.WithStaticPermissions(0o600))
	if err != nil {
		return err
	}
	defer f.Cleanup()
	if _, err := f.Write(body); err != nil {
		return err
	}
	if err := f.CloseAtomicallyReplace(); err != nil {
		return err
	}
	return sweep(filepath.Dir(name), "."+filepath.Base(name))
}

// sweep removes what killed processes left behind while they wrote a file: the
// temporary files in dir whose names begin with prefix.
func sweep(dir, prefix string) error {
	files, err := os.ReadDir(dir)
	for _, file := range files {
		info, err := file.Info()
		if err == nil && strings.HasPrefix(file.Name(), prefix) && time.Since(info.ModTime()) > time.Minute {
			os.Remove(filepath.Join(dir, file.Name()))
		}
	}
	return err
}
