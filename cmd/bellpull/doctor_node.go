package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/bellpull/bellpull/cmd/internal/config"
	"github.com/bellpull/bellpull/cmd/internal/statedir"
	"github.com/bellpull/bellpull/puppet"
)

// state checks who may touch what this node keeps.
func (f *findings) state(cfg config.Config) {
	dir := statedir.Path(cfg.State)
	switch _, err := os.Stat(dir); {
	case errors.Is(err, fs.ErrNotExist):
		f.ok("state", "%s is not there yet; the first fact or watcher makes it", dir)
		return
	case err != nil:
		f.warn("state", "run doctor as the user that runs Puppet", "%v", err)
		return
	}
	if _, err := statedir.Open(cfg.State); err != nil {
		f.fail("state", "mend its owner and mode, or remove it: it is made again", "%v", err)
		return
	}
	f.ok("state", "%s is private", dir)
}

// program tells the version of one of Puppet's programs, and whether it is there.
func (f *findings) program(ctx context.Context, name string) bool {
	version, err := puppet.Version(ctx, name)
	if err != nil {
		f.warn(name, "install it, if this machine is a node", "%v", err)
		return false
	}
	f.ok(name, "version %s", version)
	return true
}

// locks tells what keeps an agent run from starting.
func (f *findings) locks(ctx context.Context, cfg config.Config) {
	proof, err := puppet.ParseProof(cfg.Watch.Proof, cfg.Watch.Command)
	if len(cfg.Watch.Command) == 0 {
		proof, err = puppet.ProofAgent, nil
	}
	switch {
	case err != nil:
		f.fail("locks", "mend watch.proof", "%v", err)
		return
	case proof == puppet.ProofExit:
		f.ok("locks", "watch.command is not Puppet: there are no lock files to look at")
		return
	}
	paths, err := puppetPaths(ctx, cfg, puppet.QuestionOf(cfg.Watch.Command, proof))
	if err != nil {
		f.warn("locks", "", "%v", err)
		return
	}
	agent, err := puppet.NewAgent(puppet.AgentConfig{Proof: proof, Command: cfg.Watch.Command, Paths: paths})
	if err != nil {
		f.fail("locks", "mend watch.command", "%v", err)
		return
	}
	switch blocked := agent.Blocked(); {
	case blocked.Disabled:
		f.warn("locks", "run `puppet agent --enable` to let it run again", "%s (%s)", blocked, paths.DisabledLock)
	case blocked.PID != 0:
		f.ok("locks", "a run is under way, pid %d", blocked.PID)
	default:
		f.ok("locks", "the agent is free to run")
	}
}

// puppetPaths asks Puppet for its files. What the watcher has kept of the answer
// is used; doctor keeps nothing itself.
func puppetPaths(ctx context.Context, cfg config.Config, question puppet.Question) (puppet.Paths, error) {
	cache := filepath.Join(statedir.Path(cfg.State), statedir.Puppet)
	if _, err := os.Stat(cache); err != nil {
		dir, err := os.MkdirTemp("", "bellpull-doctor-")
		if err != nil {
			return puppet.Paths{}, fmt.Errorf("ask puppet for its files: %w", err)
		}
		defer os.RemoveAll(dir)
		cache = filepath.Join(dir, statedir.Puppet)
	}
	given := puppet.Paths{Lock: cfg.Puppet.Lock, DisabledLock: cfg.Puppet.DisabledLock, Report: cfg.Puppet.Report}
	return puppet.FindPaths(ctx, given, question, cache)
}

// facterConfig looks for settings that make Facter show an old fact, or none.
func (f *findings) facterConfig(paths ...string) {
	found := false
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			continue
		}
		for _, name := range facterNames(string(text), "ttls") {
			found = true
			f.fail("facter.conf", "take it out of ttls", "%s lets Facter keep %q: runs see an old state", path, name)
		}
		for _, name := range facterNames(string(text), "blocklist") {
			found = true
			f.fail("facter.conf", "take it out of blocklist", "%s blocks %q: there is no fact", path, name)
		}
	}
	if !found {
		f.ok("facter.conf", "Facter neither keeps nor blocks the fact")
	}
}

// facterNames returns the names of bellpull's fact files in a list of
// facter.conf. The file is HOCON, of which this reads what these lists need:
// names, quoted or not, in brackets; comments begin with # or //.
func facterNames(text, list string) []string {
	text = regexp.MustCompile(`(?m)(#|//).*$`).ReplaceAllString(text, "")
	block := regexp.MustCompile(`(?s)\b` + list + `"?\s*[:=]?\s*\[(.*?)\]`).FindStringSubmatch(text)
	if block == nil {
		return nil
	}
	var names []string
	for _, name := range regexp.MustCompile(`[\w.-]+`).FindAllString(block[1], -1) {
		if strings.HasPrefix(name, "bellpull") {
			names = append(names, name)
		}
	}
	return names
}
