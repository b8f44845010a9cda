package puppetserver

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// Agent is a node: a Puppet with a certificate and directories of its own.
type Agent struct {
	Name string   // its certname
	Dir  string   // everything that is its own
	Env  []string // of its runs, besides the process's own
}

// Agent makes a node of the server. extensions become part of its certificate,
// by their short names, such as pp_role.
func (s *Server) Agent(name string, extensions map[string]string) (*Agent, error) {
	a := &Agent{Name: name, Dir: s.path("agents/" + name)}
	conf := fmt.Sprintf("[main]\ncertname = %s\nserver = localhost\nserverport = %d\nusecacheonfailure = false\n", name, s.Port)
	// As root neither --confdir nor --vardir moves all of these.
	for _, dir := range []string{"vardir", "ssldir", "rundir", "logdir", "publicdir"} {
		path := filepath.Join(a.Dir, dir)
		conf += dir + " = " + path + "\n"
		if err := os.MkdirAll(path, 0o755); err != nil {
			return nil, err
		}
	}
	attributes := "---\nextension_requests:\n"
	for key, value := range extensions {
		attributes += "  " + key + ": " + value + "\n"
	}
	if len(extensions) == 0 {
		attributes = "--- {}\n"
	}
	for file, text := range map[string]string{"conf/puppet.conf": conf, "conf/csr_attributes.yaml": attributes} {
		if err := s.Write(filepath.Join("agents", name, file), text); err != nil {
			return nil, err
		}
	}
	return a, nil
}

// Command is the command line of one agent run, as a watcher has it.
func (a *Agent) Command(args ...string) []string {
	return append([]string{
		"puppet", "agent", "--confdir", filepath.Join(a.Dir, "conf"), "--onetime", "--no-daemonize", "--detailed-exitcodes",
		"--no-usecacheonfailure", "--no-splay", "--color=false", "--no-show_diff",
	}, args...)
}

// Run is one agent run: what it said, without Facter's complaints about a machine
// that hides things, and its exit code (0 no changes, 2 changes, 4 and 6 failures,
// 1 no catalog).
func (a *Agent) Run(ctx context.Context, args ...string) (output string, code int, err error) {
	line := a.Command(append([]string{"--verbose"}, args...)...)
	cmd := exec.CommandContext(ctx, line[0], line[1:]...)
	cmd.Env = append(os.Environ(), a.Env...)
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		return "", 0, fmt.Errorf("puppet agent of %s: %w", a.Name, err)
	}
	lines := slices.DeleteFunc(strings.SplitAfter(string(out), "\n"), func(line string) bool { return strings.Contains(line, "Facter: ") })
	return strings.Join(lines, ""), cmd.ProcessState.ExitCode(), nil
}

// Enroll gets the node its certificate, without a catalog.
func (a *Agent) Enroll(ctx context.Context) error {
	cmd := exec.CommandContext(ctx, "puppet", "ssl", "bootstrap", "--confdir", filepath.Join(a.Dir, "conf"), "--waitforcert", "0", "--color=false")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("get a certificate for %s: %w\n%s", a.Name, err, out)
	}
	return nil
}

// State is a path below the agent's state directory, where its lock files,
// reports and summary are.
func (a *Agent) State(name string) string { return filepath.Join(a.Dir, "vardir/state", name) }
