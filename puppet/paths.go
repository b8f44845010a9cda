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

// answers is what Puppet said, and what it was asked of: another program, or a
// changed puppet.conf, may say something else.
type answers struct {
	Paths
	Config   string    `json:"config"` // puppet.conf
	Program  string    `json:"program"`
	Modified time.Time `json:"modified,omitzero"` // of Config; zero = there is none
}

// FindPaths returns given, with what is not set there taken from the answers
// kept in the file cache, or else asked of Puppet and kept there: Debian's
// files lie elsewhere than the vendor packages', so they are never guessed.
// puppet is the program to ask, section is agent or main.
func FindPaths(ctx context.Context, given Paths, puppet, section, cache string) (Paths, error) {
	if given.complete() {
		return given, nil
	}
	program, err := lookPath(puppet)
	if err != nil {
		return Paths{}, err
	}
	if body, err := os.ReadFile(cache); err == nil {
		var kept answers
		// A damaged cache is asked anew.
		if json.Unmarshal(body, &kept) == nil && kept.complete() && kept.Program == program && modified(kept.Config).Equal(kept.Modified) {
			return given.or(kept.Paths), nil
		}
	}
	asked, err := ask(ctx, program, section)
	if err != nil {
		return Paths{}, err
	}
	body, err := json.Marshal(asked)
	if err == nil {
		err = renameio.WriteFile(cache, append(body, '\n'), 0o600, renameio.WithTempDir(filepath.Dir(cache)))
	}
	if err != nil {
		return Paths{}, fmt.Errorf("keep puppet's settings: %w", err)
	}
	return given.or(asked.Paths), nil
}

func ask(ctx context.Context, program, section string) (answers, error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, "config", "print", "--section", section,
		"agent_catalog_run_lockfile", "agent_disabled_lockfile", "lastrunreport", "config")
	cmd.Env = environment()
	out, err := cmd.Output()
	if err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			return answers{}, fmt.Errorf("ask %s config print: %w: %s", program, err, lastLine(string(exit.Stderr)))
		}
		return answers{}, fmt.Errorf("ask %s config print: %w", program, err)
	}
	settings := map[string]string{}
	for line := range strings.Lines(string(out)) {
		if name, value, ok := strings.Cut(line, "="); ok {
			settings[strings.TrimSpace(name)] = strings.TrimSpace(value)
		}
	}
	a := answers{Program: program, Config: settings["config"], Modified: modified(settings["config"]), Paths: Paths{
		Lock: settings["agent_catalog_run_lockfile"], DisabledLock: settings["agent_disabled_lockfile"], Report: settings["lastrunreport"],
	}}
	if !a.complete() {
		return answers{}, fmt.Errorf("ask %s config print: the answer lacks a setting: %q", program, out)
	}
	return a, nil
}

func modified(file string) time.Time {
	info, err := os.Stat(file)
	if err != nil {
		return time.Time{}
	}
	return info.ModTime().UTC()
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
