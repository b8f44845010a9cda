package puppet

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
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

// Question says which Puppet to ask for its files.
type Question struct {
	Program  string   `json:"program"`            // puppet, or its path
	Section  string   `json:"section"`            // agent, or main for puppet apply
	Settings []string `json:"settings,omitempty"` // such as --confdir /srv/puppet: what the command itself sets
}

// QuestionOf is the question for the Puppet that a command runs. An empty
// command stands for [DefaultCommand], and one that is no Puppet for the
// agent's.
func QuestionOf(command []string, proof Proof) Question {
	q := Question{Program: "puppet", Section: "agent", Settings: settingsOf(command)}
	if proof == ProofApply {
		q.Section = "main"
	}
	if len(command) > 0 && filepath.Base(command[0]) == q.Program {
		q.Program = command[0]
	}
	return q
}

// settingsOf returns those arguments of a puppet command that say where its
// files are: a Puppet that is asked without them answers for another one.
func settingsOf(command []string) (settings []string) {
	for i := 0; i < len(command); i++ {
		name, _, joined := strings.Cut(strings.TrimPrefix(command[i], "--"), "=")
		switch name {
		case "confdir", "config", "vardir", "statedir", "lastrunreport", "agent_catalog_run_lockfile", "agent_disabled_lockfile":
		default:
			continue
		}
		if settings = append(settings, command[i]); !joined && i+1 < len(command) {
			i++
			settings = append(settings, command[i])
		}
	}
	return settings
}

// answers is what Puppet said, and what it was asked of: another program, other
// settings, or a changed puppet.conf may say something else.
type answers struct {
	Paths
	Question
	Config   string    `json:"config"`            // puppet.conf
	Modified time.Time `json:"modified,omitzero"` // of Config; zero = there is none
}

// FindPaths returns given, with what is not set there taken from the answers
// kept in the file cache, or else asked of Puppet and kept there: Debian's
// files lie elsewhere than the vendor packages', so they are never guessed.
func FindPaths(ctx context.Context, given Paths, q Question, cache string) (Paths, error) {
	if given.complete() {
		return given, nil
	}
	var err error
	if q.Program, err = lookPath(q.Program); err != nil {
		return Paths{}, err
	}
	if body, err := os.ReadFile(cache); err == nil {
		var kept answers
		// A damaged cache is asked anew.
		if json.Unmarshal(body, &kept) == nil && kept.complete() && reflect.DeepEqual(kept.Question, q) && modified(kept.Config).Equal(kept.Modified) {
			return given.or(kept.Paths), nil
		}
	}
	asked, err := q.ask(ctx)
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

func (q Question) ask(ctx context.Context) (answers, error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	args := append([]string{"config", "print"}, q.Settings...)
	cmd := exec.CommandContext(ctx, q.Program, append(args, "--section", q.Section,
		"agent_catalog_run_lockfile", "agent_disabled_lockfile", "lastrunreport", "config")...)
	cmd.Env = environment()
	out, err := cmd.Output()
	if err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			return answers{}, fmt.Errorf("ask %s config print: %w: %s", q.Program, err, lastLine(string(exit.Stderr)))
		}
		return answers{}, fmt.Errorf("ask %s config print: %w", q.Program, err)
	}
	settings := map[string]string{}
	for line := range strings.Lines(string(out)) {
		if name, value, ok := strings.Cut(line, "="); ok {
			settings[strings.TrimSpace(name)] = strings.TrimSpace(value)
		}
	}
	a := answers{Question: q, Config: settings["config"], Modified: modified(settings["config"]), Paths: Paths{
		Lock: settings["agent_catalog_run_lockfile"], DisabledLock: settings["agent_disabled_lockfile"], Report: settings["lastrunreport"],
	}}
	if !a.complete() {
		return answers{}, fmt.Errorf("ask %s config print: the answer lacks a setting: %q", q.Program, out)
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
