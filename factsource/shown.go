package factsource

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/bellpull/bellpull/schemas"
)

const (
	shownDir  = "shown"
	maxShown  = 32  // records that are kept, the newest
	maxRun    = 128 // characters of a run's id
	maxParent = 64  // ancestors that are looked at
)

// leave writes the record of what was shown to a run: a run of the watcher has
// an id, any other agent run holds the lock and is our ancestor.
func (c *Collection) leave() error {
	shown := schemas.Shown{Bucket: c.bucket, Time: c.now.UTC(), Scopes: map[schemas.Scope]schemas.ShownScope{}}
	if runID(c.cfg.Run) {
		shown.Run = c.cfg.Run
	}
	if pid := lockedBy(c.cfg.Lock); pid > 0 && ancestor(pid) {
		shown.PID = pid
	}
	if shown.Run == "" && shown.PID == 0 {
		return nil
	}
	for _, ch := range c.choices {
		if c.known() {
			shown.Scopes[ch.scope] = schemas.ShownScope{Revision: ch.Revision, Live: ch.live, Entries: c.digests()[ch.scope]}
		}
	}
	body, err := shown.Marshal()
	if err != nil {
		return fmt.Errorf("record what was shown: %w", err)
	}
	dir := filepath.Join(c.cfg.Dir, shownDir)
	if err := os.Mkdir(dir, 0o700); err != nil && !os.IsExist(err) {
		return fmt.Errorf("record what was shown: %w", err)
	}
	name := cmp.Or(shown.Run, "pid-"+strconv.Itoa(shown.PID)) + ".json"
	if err := writePrivate(filepath.Join(dir, name), append(body, '\n')); err != nil {
		return fmt.Errorf("record what was shown: %w", err)
	}
	return prune(dir)
}

// known reports whether the fact has a state: without one nothing was shown.
func (c *Collection) known() bool {
	return !slices.ContainsFunc(c.choices, func(ch choice) bool { return !ch.live && !ch.record.known() })
}

// runID reports whether id can be a file's name.
func runID(id string) bool {
	legal := func(r rune) bool {
		return 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || r == '-' || r == '_'
	}
	return id != "" && len(id) <= maxRun && strings.TrimFunc(id, legal) == ""
}

// lockedBy returns the pid in the agent's run lock, 0 if there is none.
func lockedBy(lock string) int {
	if lock == "" {
		return 0
	}
	body, err := os.ReadFile(lock)
	if err != nil {
		return 0
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(body)))
	if err != nil {
		return 0
	}
	return pid
}

// ancestor reports whether pid is an ancestor of this process, as far as /proc
// tells.
func ancestor(pid int) bool {
	parent := os.Getppid()
	for range maxParent {
		if parent == pid {
			return true
		}
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", parent))
		if err != nil || parent <= 1 {
			return false
		}
		// pid (command) state ppid …: only the last parenthesis ends the command.
		rest := string(stat[strings.LastIndexByte(string(stat), ')')+1:])
		fields := strings.Fields(rest)
		if len(fields) < 2 {
			return false
		}
		if parent, err = strconv.Atoi(fields[1]); err != nil {
			return false
		}
	}
	return false
}

// prune keeps the newest records.
func prune(dir string) error {
	files, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("prune records: %w", err)
	}
	type old struct {
		name     string
		modified int64
	}
	var records []old
	for _, file := range files {
		if info, err := file.Info(); err == nil && strings.HasSuffix(file.Name(), ".json") {
			records = append(records, old{file.Name(), info.ModTime().UnixNano()})
		}
	}
	slices.SortFunc(records, func(a, b old) int { return cmp.Compare(b.modified, a.modified) })
	for _, r := range records[min(maxShown, len(records)):] {
		if err := os.Remove(filepath.Join(dir, r.name)); err != nil && !os.IsNotExist(err) {
			return fmt.Errorf("prune records: %w", err)
		}
	}
	return nil
}
