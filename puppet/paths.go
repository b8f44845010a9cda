package puppet

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/google/renameio/v2"
)

// Paths are the files by which an agent tells about its runs. The JSON names are
// those of Puppet's settings.
type Paths struct {
	Lock         string `json:"agent_catalog_run_lockfile"` // holds the pid of the run under way
	DisabledLock string `json:"agent_disabled_lockfile"`    // is there while the agent is disabled
	Report       string `json:"lastrunreport"`              // the last run's report
}

// askTimeout is for one `puppet config print`; Ruby's start takes seconds on a busy node.
const askTimeout = time.Minute

// FindPaths returns given, with what is not set there taken from the answers
// kept in the file cache, or else asked of Puppet and kept there: Debian's
// files lie elsewhere than the vendor packages', so they are never guessed.
// puppet is the program to ask, section is agent or main.
func FindPaths(ctx context.Context, given Paths, puppet, section, cache string) (Paths, error) {
	if given.Lock != "" && given.DisabledLock != "" && given.Report != "" {
		return given, nil
	}
	if body, err := os.ReadFile(cache); err == nil {
		var kept Paths
		// A damaged cache is asked anew.
		if json.Unmarshal(body, &kept) == nil && kept.complete() {
			return given.or(kept), nil
		}
	}
	asked, err := askPaths(ctx, puppet, section)
	if err != nil {
		return Paths{}, err
	}
	body, err := json.Marshal(asked)
	if err == nil {
		err = renameio.WriteFile(cache, append(body, '\n'), 0o600)
	}
	if err != nil {
		return Paths{}, fmt.Errorf("keep puppet's settings: %w", err)
	}
	return given.or(asked), nil
}

func askPaths(ctx context.Context, puppet, section string) (Paths, error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, puppet, "config", "print", "--section", section,
		"agent_catalog_run_lockfile", "agent_disabled_lockfile", "lastrunreport")
	cmd.Env = environment()
	out, err := cmd.Output()
	if err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			return Paths{}, fmt.Errorf("ask %s config print: %w: %s", puppet, err, lastLine(string(exit.Stderr)))
		}
		return Paths{}, fmt.Errorf("ask %s config print: %w", puppet, err)
	}
	settings := map[string]string{}
	for line := range strings.Lines(string(out)) {
		if name, value, ok := strings.Cut(line, "="); ok {
			settings[strings.TrimSpace(name)] = strings.TrimSpace(value)
		}
	}
	paths := Paths{
		Lock: settings["agent_catalog_run_lockfile"], DisabledLock: settings["agent_disabled_lockfile"], Report: settings["lastrunreport"],
	}
	if !paths.complete() {
		return Paths{}, fmt.Errorf("ask %s config print: the answer lacks a setting: %q", puppet, out)
	}
	return paths, nil
}

func (p Paths) complete() bool {
	return filepath.IsAbs(p.Lock) && filepath.IsAbs(p.DisabledLock) && filepath.IsAbs(p.Report)
}

func (p Paths) or(other Paths) Paths {
	pick := func(a, b string) string {
		if a != "" {
			return a
		}
		return b
	}
	return Paths{
		Lock: pick(p.Lock, other.Lock), DisabledLock: pick(p.DisabledLock, other.DisabledLock), Report: pick(p.Report, other.Report),
	}
}
