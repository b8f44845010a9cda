package hieradata

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/bellpull/bellpull/schemas"
)

const (
	syncedFile    = "synced.json"
	heartbeatFile = "heartbeat.json"
	tempDir       = ".tmp" // no scope's file name: those end in .json
)

// synced is the content of synced.json.
type synced struct {
	Version  int             `json:"bellpull"`
	Bucket   string          `json:"bucket"`
	Prefixes []string        `json:"prefixes"`
	Scopes   []schemas.Scope `json:"scopes"` // those that have a document, sorted
	Synced   time.Time       `json:"synced"` // when a full load last changed this file
}

type heartbeat struct {
	Version  int       `json:"bellpull"`
	Time     time.Time `json:"time"`
	Sequence uint64    `json:"sequence"`
}

// directory is the directory of data files. One process at a time keeps it.
type directory struct {
	path   string
	lock   *os.File
	synced synced // as on disk; Version 0 = never synced
}

// openDirectory makes the directory, or takes over the one that stands: it locks
// it and clears away what a killed process left half written.
func openDirectory(path string) (*directory, error) {
	if err := os.MkdirAll(path, 0o750); err != nil {
		return nil, fmt.Errorf("make the directory of data files: %w", err)
	}
	lock, err := lockDirectory(path)
	if err != nil {
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	d := &directory{path: path, lock: lock}
	if err := d.takeOver(); err != nil {
		return nil, errors.Join(err, d.close())
	}
	return d, nil
}

func (d *directory) takeOver() error {
	temp := filepath.Join(d.path, tempDir)
	if err := os.RemoveAll(temp); err != nil {
		return fmt.Errorf("clear %s: %w", temp, err)
	}
	if err := os.Mkdir(temp, 0o700); err != nil {
		return fmt.Errorf("make the directory of temporary files: %w", err)
	}
	text, err := os.ReadFile(filepath.Join(d.path, syncedFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err != nil {
		return fmt.Errorf("read what was synced: %w", err)
	}
	// A damaged one is as good as none: the next full load writes it anew.
	if json.Unmarshal(text, &d.synced) != nil || d.synced.Version != 1 {
		d.synced = synced{}
	}
	return nil
}

func (d *directory) close() error { return d.lock.Close() }

// load verifies every data file. bad tells of those that readers will refuse.
func (d *directory) load(bad func(name string, err error)) (map[schemas.Scope]fileHead, error) {
	list, err := os.ReadDir(d.path)
	if err != nil {
		return nil, fmt.Errorf("list the data files: %w", err)
	}
	heads := map[schemas.Scope]fileHead{}
	for _, item := range list {
		scope, err := schemas.ScopeFromFileName(item.Name())
		if err != nil || reserved(scope) {
			continue
		}
		heads[scope] = fileHead{}
		text, err := os.ReadFile(filepath.Join(d.path, item.Name()))
		var head fileHead
		if err == nil {
			head, err = verify(text)
		}
		if err == nil && head.Scope != scope {
			err = fmt.Errorf("holds scope %s", head.Scope)
		}
		if err != nil {
			bad(item.Name(), err)
			continue
		}
		heads[scope] = head
	}
	return heads, nil
}

func (d *directory) put(head fileHead, document schemas.Document, now time.Time) error {
	text, err := encode(head, document, now)
	if err != nil {
		return err
	}
	return d.replace(head.Scope.FileName(), text, false)
}

func (d *directory) remove(scope schemas.Scope) error {
	if err := os.Remove(filepath.Join(d.path, scope.FileName())); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove the data file of %s: %w", scope, err)
	}
	return nil
}

// list writes synced.json, if it is to say anything new.
func (d *directory) list(bucket string, prefixes []string, scopes []schemas.Scope, now time.Time) error {
	s := synced{Version: 1, Bucket: bucket, Prefixes: prefixes, Scopes: scopes, Synced: now.UTC()}
	if d.synced.Version == 1 && d.synced.Bucket == bucket && slices.Equal(d.synced.Prefixes, prefixes) && slices.Equal(d.synced.Scopes, scopes) {
		return nil
	}
	text, err := json.Marshal(s)
	if err != nil {
		return fmt.Errorf("encode %s: %w", syncedFile, err)
	}
	if err := d.replace(syncedFile, append(text, '\n'), true); err != nil {
		return err
	}
	d.synced = s
	return nil
}

func (d *directory) beat(at Position) error {
	text, err := json.Marshal(heartbeat{Version: 1, Time: at.At.UTC(), Sequence: at.Sequence})
	if err != nil {
		return fmt.Errorf("encode %s: %w", heartbeatFile, err)
	}
	return d.replace(heartbeatFile, append(text, '\n'), false)
}

// replace writes a file by renaming. A durable one is on the disk before it has
// its name. Data files are not (renameio always waits for the disk): at 2 to 15 ms
// a file, a first load of 10,000 scopes would take minutes. One that a power cut
// tears is found by its checksum, one that it loses by synced.json, which is durable.
func (d *directory) replace(name string, text []byte, durable bool) (err error) {
	temp, err := os.CreateTemp(filepath.Join(d.path, tempDir), "")
	if err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("write %s: %w", name, err), os.Remove(temp.Name()))
		}
	}()
	_, err = temp.Write(text)
	err = errors.Join(err, temp.Chmod(0o640))
	if durable {
		err = errors.Join(err, temp.Sync())
	}
	if err = errors.Join(err, temp.Close()); err != nil {
		return err
	}
	return os.Rename(temp.Name(), filepath.Join(d.path, name))
}

// reserved tells the scopes whose file names the directory needs for itself.
func reserved(scope schemas.Scope) bool {
	return scope.FileName() == syncedFile || scope.FileName() == heartbeatFile
}
