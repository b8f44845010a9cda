package hieradata

import (
	"bytes"
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
	listDir       = "scopes" // no scope's file name: those end in .json
	tempDir       = ".tmp"   // likewise

	fileMode = 0o640
	dirMode  = 0o750
)

// synced is the content of synced.json.
type synced struct {
	Version  int       `json:"bellpull"`
	Bucket   string    `json:"bucket"`
	Prefixes []string  `json:"prefixes"`
	Synced   time.Time `json:"synced"` // when a full load last changed this file
}

type heartbeat struct {
	Version  int       `json:"bellpull"`
	Time     time.Time `json:"time"`
	Sequence uint64    `json:"sequence"`
}

// directory is the directory of data files. One process at a time keeps it.
type directory struct {
	path   string
	group  int // that files and directories get; -1 = what the system gives them
	lock   *os.File
	synced synced // as on disk; Version 0 = never synced
	// What a new file needs besides being made: that depends on the umask and on the
	// directory, and is asked once. With 100,000 files each call counts.
	chmod, chown bool
}

// openDirectory makes the directory, or takes over the one that stands: it locks
// it and clears away what a killed process left half written.
func openDirectory(path string, group int) (*directory, error) {
	if err := os.MkdirAll(path, dirMode); err != nil {
		return nil, fmt.Errorf("make the directory of data files: %w", err)
	}
	lock, err := lockDirectory(path)
	if err != nil {
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	d := &directory{path: path, group: group, lock: lock}
	if err := d.takeOver(); err != nil {
		return nil, errors.Join(err, d.close())
	}
	return d, nil
}

func (d *directory) takeOver() error {
	temp, lists := filepath.Join(d.path, tempDir), filepath.Join(d.path, listDir)
	if err := os.RemoveAll(temp); err != nil {
		return fmt.Errorf("clear %s: %w", temp, err)
	}
	if err := os.Mkdir(temp, 0o700); err != nil {
		return fmt.Errorf("make the directory of temporary files: %w", err)
	}
	if err := d.probe(); err != nil {
		return err
	}
	if info, err := os.Lstat(lists); err == nil && !info.IsDir() {
		if err := os.Remove(lists); err != nil {
			return fmt.Errorf("clear %s: %w", lists, err)
		}
	}
	if err := os.Mkdir(lists, dirMode); err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("make the directory of lists: %w", err)
	}
	if d.group >= 0 {
		for _, dir := range []string{d.path, lists} {
			if err := os.Chown(dir, -1, d.group); err != nil {
				return fmt.Errorf("give the directory of data files to its readers' group: %w", err)
			}
		}
	}
	text, err := os.ReadFile(filepath.Join(d.path, syncedFile))
	// One that is damaged is as good as none: the next full load writes it anew.
	if err != nil || json.Unmarshal(text, &d.synced) != nil || d.synced.Version != 1 {
		d.synced = synced{}
	}
	return nil
}

// probe makes a file to see what the system makes of it.
func (d *directory) probe() error {
	file, err := d.create()
	if err != nil {
		return fmt.Errorf("make a temporary file: %w", err)
	}
	defer os.Remove(file.Name())
	info, err := file.Stat()
	if err == nil {
		d.chmod = info.Mode() != fileMode
		d.chown = d.group >= 0 && groupOf(info) != d.group
	}
	return errors.Join(err, file.Close())
}

// create makes the one temporary file that there is at a time.
func (d *directory) create() (*os.File, error) {
	return os.OpenFile(filepath.Join(d.path, tempDir, "new"), os.O_WRONLY|os.O_CREATE|os.O_TRUNC, fileMode)
}

func (d *directory) close() error { return d.lock.Close() }

// names lists the scopes that have a file, whatever is in it.
func (d *directory) names() ([]schemas.Scope, error) {
	f, err := os.Open(d.path)
	if err != nil {
		return nil, fmt.Errorf("list the data files: %w", err)
	}
	defer f.Close()
	list, err := f.Readdirnames(-1)
	if err != nil {
		return nil, fmt.Errorf("list the data files: %w", err)
	}
	var scopes []schemas.Scope
	for _, name := range list {
		if scope, err := schemas.ScopeFromFileName(name); err == nil && !reserved(scope) {
			scopes = append(scopes, scope)
		}
	}
	return scopes, nil
}

// head verifies the data file of a scope as its readers will, and returns what it
// says of itself. A link or a mode that keeps readers out is an error, too.
func (d *directory) head(scope schemas.Scope) (fileHead, error) {
	path := filepath.Join(d.path, scope.FileName())
	info, err := os.Lstat(path)
	switch {
	case err != nil:
		return fileHead{}, err
	case !info.Mode().IsRegular():
		return fileHead{}, fmt.Errorf("is no file but %v", info.Mode().Type())
	case info.Mode().Perm() != fileMode:
		return fileHead{}, fmt.Errorf("has mode %v, not %v", info.Mode().Perm(), fs.FileMode(fileMode))
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return fileHead{}, err
	}
	head, err := verify(text)
	if err == nil && head.Scope != scope {
		err = fmt.Errorf("holds scope %s", head.Scope)
	}
	return head, err
}

func (d *directory) put(head fileHead, document schemas.Document, now time.Time) error {
	text, err := encode(head, document, now)
	if err != nil {
		return err
	}
	return d.replace(head.Scope.FileName(), text, false)
}

func (d *directory) remove(scope schemas.Scope) error {
	// All: a directory may have come into its place.
	if err := os.RemoveAll(filepath.Join(d.path, scope.FileName())); err != nil {
		return fmt.Errorf("remove the data file of %s: %w", scope, err)
	}
	return nil
}

// mark writes synced.json, if it is to say anything new or is not as it was written.
func (d *directory) mark(bucket string, prefixes []string, now time.Time) error {
	s := d.synced
	if s.Version != 1 || s.Bucket != bucket || !slices.Equal(s.Prefixes, prefixes) {
		s = synced{Version: 1, Bucket: bucket, Prefixes: prefixes, Synced: now.UTC()}
	}
	text, err := json.Marshal(s)
	if err != nil {
		return fmt.Errorf("encode %s: %w", syncedFile, err)
	}
	if err := d.ensure(syncedFile, append(text, '\n'), true); err != nil {
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

// ensure writes a file that is not what it should be.
func (d *directory) ensure(name string, text []byte, durable bool) error {
	path := filepath.Join(d.path, name)
	if info, err := os.Lstat(path); err == nil && info.Mode() == fileMode {
		if old, err := os.ReadFile(path); err == nil && bytes.Equal(old, text) {
			return nil
		}
	}
	return d.replace(name, text, durable)
}

// replace writes a file by renaming. A durable one is on the disk before it has
// its name. Data files are not (renameio always waits for the disk): at 2 to 15 ms
// a file, a first load of 10,000 scopes would take minutes. What a power cut leaves
// of them is older, or found by its checksum, or missing though it is listed.
func (d *directory) replace(name string, text []byte, durable bool) (err error) {
	temp, err := d.create()
	if err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("write %s: %w", name, err), os.Remove(temp.Name()))
		}
	}()
	_, err = temp.Write(text)
	if d.chmod {
		err = errors.Join(err, temp.Chmod(fileMode))
	}
	if d.chown {
		err = errors.Join(err, temp.Chown(-1, d.group))
	}
	if durable {
		err = errors.Join(err, temp.Sync())
	}
	if err = errors.Join(err, temp.Close()); err != nil {
		return err
	}
	path := filepath.Join(d.path, name)
	if err = os.Rename(temp.Name(), path); err == nil {
		return nil
	}
	// A directory in the file's place has no business there.
	if info, e := os.Lstat(path); e == nil && info.IsDir() {
		if e := os.RemoveAll(path); e == nil {
			err = os.Rename(temp.Name(), path)
		}
	}
	return err
}

// reserved tells the scopes whose file names the directory needs for itself.
func reserved(scope schemas.Scope) bool {
	return scope.FileName() == syncedFile || scope.FileName() == heartbeatFile
}
