package puppet

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/google/renameio/v2"

	"github.com/bellpull/bellpull/schemas"
)

// The files of the node's private directory that a run's proof lies in.
const (
	appliedFile  = "applied.json"  // written here: what runs are proven to have used
	journalFile  = "run.json"      // written here: what is wanted, and the run under way
	lockFile     = "watch.lock"    // held by the watcher at work
	compiledFile = "compiled.json" // class bellpull's: what the last compile used
	shownDir     = "shown"         // the fact's: what it showed to each run
)

// journal is what the watcher has to know after a restart, besides what is
// applied. One file holds all of it, so that it is of one moment.
type journal struct {
	Version  int                      `json:"bellpull"`
	Wanted                            // bucket and scopes
	Run      *Run                     `json:"run,omitzero"` // the run under way
	Last     time.Time                `json:"last,omitzero"`
	Seen     time.Time                `json:"seen,omitzero"`     // when the report was written that was looked at last
	Noticed  map[string]time.Time     `json:"noticed,omitempty"` // when each due was first seen
	Limit    schemas.Limit            `json:"limit,omitzero"`
	Unknown  time.Time                `json:"unknown,omitzero"` // since when no keeper has answered
	Alone    time.Time                `json:"alone,omitzero"`   // when a run starts without a permit
	Reported reported                 `json:"reported,omitzero"`
	Retry    *Retry                   `json:"retry,omitzero"`
	Unproven map[schemas.Scope]string `json:"unproven,omitempty"`
}

// stateDir reads and writes the watcher's files.
type stateDir struct {
	dir     string
	written map[string][]byte // what stands on disk, by file
}

func newStateDir(dir string) *stateDir { return &stateDir{dir: dir, written: map[string][]byte{}} }

// lock keeps other watchers out of the directory until the returned function is
// called, or the process has ended.
func (s *stateDir) lock() (unlock func(), err error) {
	path := filepath.Join(s.dir, lockFile)
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock state: %w", err)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		f.Close()
		return nil, fmt.Errorf("another watcher is at work in %s: %w", s.dir, schemas.ErrConflict)
	}
	return func() { f.Close() }, nil
}

// load reads what an earlier watcher left. A file that is missing, or damaged,
// counts as empty; the error then says what was lost.
func (s *stateDir) load() (j journal, a schemas.Applied, err error) {
	read := func(name string, parse func([]byte) error) {
		body, readErr := os.ReadFile(filepath.Join(s.dir, name))
		switch {
		case errors.Is(readErr, fs.ErrNotExist):
		case readErr != nil:
			err = errors.Join(err, readErr)
		default:
			s.written[name] = body
			if parseErr := parse(body); parseErr != nil {
				err = errors.Join(err, fmt.Errorf("%s: %w", name, parseErr))
			}
		}
	}
	read(journalFile, func(body []byte) error {
		var parsed journal
		if err := json.Unmarshal(body, &parsed); err != nil {
			return err
		}
		j = parsed
		return nil
	})
	read(appliedFile, func(body []byte) (err error) {
		a, err = schemas.ParseApplied(body)
		return err
	})
	return j, a, err
}

func (s *stateDir) saveApplied(a schemas.Applied) error {
	body, err := a.Marshal()
	if err != nil {
		return fmt.Errorf("write %s: %w", appliedFile, err)
	}
	return s.write(appliedFile, body)
}

func (s *stateDir) saveJournal(j journal) error {
	j.Version = 1
	body, err := json.Marshal(j, json.Deterministic(true))
	if err != nil {
		return fmt.Errorf("write %s: %w", journalFile, err)
	}
	return s.write(journalFile, body)
}

// write replaces the file in one step, unless it holds the same already.
func (s *stateDir) write(name string, body []byte) error {
	body = append(body, '\n')
	if bytes.Equal(s.written[name], body) {
		return nil
	}
	path := filepath.Join(s.dir, name)
	if err := renameio.WriteFile(path, body, 0o600, renameio.WithTempDir(s.dir), renameio.WithStaticPermissions(0o600)); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	s.written[name] = body
	return nil
}

// trial gathers what tells what a run used.
func (s *stateDir) trial(run Run, proof Proof, result Result) (Trial, error) {
	t := Trial{Run: run, Proof: proof, Result: result}
	if proof == ProofExit {
		return t, nil
	}
	body, err := os.ReadFile(filepath.Join(s.dir, shownDir, run.ID+".json"))
	if err == nil {
		var shown schemas.Shown
		if shown, err = schemas.ParseShown(body); err == nil && shown.Run == run.ID {
			t.Shown = &shown
		}
	}
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	t.Compiled, t.CompiledFault = s.compiled(result.Report)
	return t, err
}

// compiled reads class bellpull's file, provided that the report says that this
// run has looked after it.
func (s *stateDir) compiled(report *Report) (schemas.Compiled, string) {
	path := filepath.Join(s.dir, compiledFile)
	if report == nil {
		return nil, ""
	}
	status, listed := report.Resources[fileResource(path)]
	switch {
	case !listed:
		return nil, ""
	case status.Skipped:
		return nil, fileResource(path) + " was skipped, so there is no telling what the server used"
	case status.Failed:
		return nil, fileResource(path) + " failed, so there is no telling what the server used"
	}
	body, err := os.ReadFile(path)
	if err != nil {
		return nil, err.Error()
	}
	compiled, err := schemas.ParseCompiled(body)
	if err != nil {
		return nil, err.Error()
	}
	return compiled, ""
}
