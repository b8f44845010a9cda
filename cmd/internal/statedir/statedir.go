// Package statedir opens a node's private state: one directory, 0700, that the
// fact and the watcher share, and the key of their digests.
package statedir

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/bellpull/bellpull/schemas"
)

// The files in the directory. Each has one writer.
const (
	Snapshot = "snapshot.json" // the fact: its last good state
	Shown    = "shown"         // the fact: a directory of records of what it showed
	Applied  = "applied.json"  // the watcher: what runs are proven to have used
	Run      = "run.json"      // the watcher: the run under way
	Changes  = "changes.json"  // the watcher: what the last run was started for
	Puppet   = "puppet.json"   // the watcher: what puppet config print said
	Compiled = "compiled.json" // class bellpull: what the last compile used
	digest   = "digest.key"
)

// Path returns the node's private directory below state.
func Path(state string) string { return filepath.Join(state, "node") }

// Open makes the directory if it is missing, and returns its path. A directory
// that belongs to somebody other than this user or root, or that others may
// enter, is [schemas.ErrInvalid]: what it holds could be planted or read.
func Open(state string) (string, error) {
	dir := Path(state)
	if err := os.MkdirAll(state, 0o755); err != nil {
		return "", fmt.Errorf("make state directory: %w", err)
	}
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return "", fmt.Errorf("make state directory: %w", err)
	}
	info, err := os.Stat(dir)
	if err != nil {
		return "", fmt.Errorf("open state directory: %w", err)
	}
	switch owner, known := ownerOf(info); {
	case !info.IsDir():
		return "", fmt.Errorf("%s is no directory: %w", dir, schemas.ErrInvalid)
	case known && owner != 0 && owner != os.Geteuid():
		return "", fmt.Errorf("%s belongs to user %d, neither to root nor to this user: %w", dir, owner, schemas.ErrInvalid)
	case known && info.Mode().Perm()&0o077 != 0:
		return "", fmt.Errorf("%s may be entered by others, run chmod 0700 %s: %w", dir, dir, schemas.ErrInvalid)
	}
	return dir, nil
}

// Digester returns the digester of dir's key, which is made when it is missing
// or damaged. After that all digests differ, so that a node runs once more.
func Digester(dir string) (schemas.Digester, error) {
	file := filepath.Join(dir, digest)
	var key [schemas.DigestKeySize]byte
	text, err := os.ReadFile(file)
	switch {
	case err == nil && len(text) == len(key):
		copy(key[:], text)
		return schemas.NewDigester(key), nil
	case err == nil:
		if err := os.Remove(file); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return schemas.Digester{}, fmt.Errorf("replace damaged digest key: %w", err)
		}
	case !errors.Is(err, fs.ErrNotExist):
		return schemas.Digester{}, fmt.Errorf("read digest key: %w", err)
	}
	rand.Read(key[:]) // never fails, see crypto/rand
	// Fact and watcher may both be first: a link, unlike a rename, keeps the winner's.
	temp, err := os.CreateTemp(dir, ".tmp-"+digest)
	if err != nil {
		return schemas.Digester{}, fmt.Errorf("make digest key: %w", err)
	}
	defer os.Remove(temp.Name())
	_, err = temp.Write(key[:])
	if err := errors.Join(err, temp.Sync(), temp.Close()); err != nil {
		return schemas.Digester{}, fmt.Errorf("make digest key: %w", err)
	}
	if err := os.Link(temp.Name(), file); err != nil && !errors.Is(err, fs.ErrExist) {
		return schemas.Digester{}, fmt.Errorf("make digest key: %w", err)
	}
	text, err = os.ReadFile(file)
	if err != nil || len(text) != len(key) {
		return schemas.Digester{}, fmt.Errorf("read digest key: %w", errors.Join(err, schemas.ErrInvalid))
	}
	copy(key[:], text)
	return schemas.NewDigester(key), nil
}
