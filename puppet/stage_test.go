package puppet_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/bellpull/bellpull/puppet"
)

const patience = 20 * time.Second // for what takes milliseconds on a quiet machine

// stage is a directory with a command that plays puppet, and puppet's files.
type stage struct {
	t     testing.TB
	dir   string
	paths puppet.Paths
}

func newStage(t testing.TB) *stage {
	dir := t.TempDir()
	return &stage{t: t, dir: dir, paths: puppet.Paths{
		Lock: filepath.Join(dir, "run.lock"), DisabledLock: filepath.Join(dir, "disabled.lock"), Report: filepath.Join(dir, "report.yaml"),
	}}
}

func (s *stage) write(name, body string) string {
	s.t.Helper()
	path := filepath.Join(s.dir, name)
	// A process that another test starts at this moment would hold the file open for
	// writing, and what is open for writing cannot be executed (golang.org/issue/22315).
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	if err := os.WriteFile(path, []byte(body), 0o700); err != nil {
		s.t.Fatal(err)
	}
	return path
}

func (s *stage) read(name string) string {
	s.t.Helper()
	body, err := os.ReadFile(filepath.Join(s.dir, name))
	if err != nil {
		s.t.Fatal(err)
	}
	return string(body)
}

// agent returns an agent whose command is the shell script.
func (s *stage) agent(script string, change ...func(*puppet.AgentConfig)) *puppet.Agent {
	s.t.Helper()
	cfg := puppet.AgentConfig{
		Command: []string{s.write("puppet-stub", "#!/bin/sh\ncd "+s.dir+"\n"+script)},
		Proof:   puppet.ProofAgent, Paths: s.paths, Dir: s.dir, Grace: 100 * time.Millisecond,
	}
	for _, f := range change {
		f(&cfg)
	}
	agent, err := puppet.NewAgent(cfg)
	if err != nil {
		s.t.Fatal(err)
	}
	return agent
}

// report prepares the report that puppet would write, as the file next.yaml.
func (s *stage) report(file, jobID string, replace ...string) {
	s.t.Helper()
	body, err := os.ReadFile(filepath.Join("testdata", "reports", file+".yaml"))
	if err != nil {
		s.t.Fatal(err)
	}
	text := strings.Replace(string(body), "report_format: 12\n", "report_format: 12\njob_id: '"+jobID+"'\n", 1)
	s.write("next.yaml", strings.NewReplacer(replace...).Replace(text))
}

// process starts a process with the given name, for lock files, and returns its pid.
func (s *stage) process(name string) int {
	s.t.Helper()
	sleep, err := exec.LookPath("sleep")
	if err != nil {
		s.t.Fatal(err)
	}
	path := filepath.Join(s.dir, name)
	if err := os.Symlink(sleep, path); err != nil {
		s.t.Fatal(err)
	}
	cmd := exec.Command(path, "600")
	if err := cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	return cmd.Process.Pid
}

// kill ends what a failed test may leave behind: the process and its group.
func kill(p puppet.Process) {
	if p.Alive() {
		_ = syscall.Kill(-p.PID, syscall.SIGKILL) // gone just now: all the better
	}
}

// runID is an id that no other test has, in this process or in another.
func runID(t testing.TB) string {
	return fmt.Sprintf("%s-%d", strings.NewReplacer("/", "-", " ", "-", ",", "").Replace(t.Name()), os.Getpid())
}

func start(t testing.TB, agent *puppet.Agent, order puppet.Order) puppet.Run {
	t.Helper()
	run := puppet.Run{ID: order.ID, Started: time.Now()}
	process, err := agent.Start(order)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { kill(process) })
	run.Process = process
	return run
}

func wait(t testing.TB, agent *puppet.Agent, run puppet.Run) puppet.Result {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	result, err := agent.Wait(ctx, run)
	if err != nil {
		t.Fatal(err)
	}
	return result
}

func eventually(t testing.TB, what string, condition func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !condition(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%s: not within %v", what, patience)
		}
	}
}

func exists(path string) bool { _, err := os.Stat(path); return err == nil }
