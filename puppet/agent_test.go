package puppet_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/bellpull/bellpull/puppet"
	"github.com/bellpull/bellpull/schemas"
)

// Some programs ignore TERM. Puppet itself ends on it, but leaves the command that
// it was running behind, which has a session of its own.
func TestAgentTimeout(t *testing.T) {
	for name, onTerm := range map[string]string{"ignores TERM": "''", "leaves its command behind": "'exit 0'"} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t)
			agent := s.agent("trap "+onTerm+` TERM
setsid sh -c 'trap "" TERM; echo $$ > grandchild; while :; do sleep 1; done' &
while :; do sleep 0.1; done`, func(c *puppet.AgentConfig) { c.Timeout = 500 * time.Millisecond })
			run := start(t, agent, puppet.Order{ID: runID(t)})
			eventually(t, "grandchild", func() bool { return exists(filepath.Join(s.dir, "grandchild")) && s.read("grandchild") != "" })
			pid, err := strconv.Atoi(strings.TrimSpace(s.read("grandchild")))
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { kill(puppet.Process{PID: pid}) })
			result := wait(t, agent, run)
			if result.Outcome != puppet.TimedOut {
				t.Errorf("%q because %q, want %q", result.Outcome, result.Reason, puppet.TimedOut)
			}
			for _, p := range []puppet.Process{run.Process, {PID: pid}} {
				eventually(t, fmt.Sprintf("end of pid %d", p.PID), func() bool { return !p.Alive() })
			}
		})
	}
}

// A run that ends on TERM has time to write its report and to give the lock back.
func TestAgentTimeoutGrace(t *testing.T) {
	s := newStage(t)
	agent := s.agent("trap 'echo bye > bye; exit 0' TERM; echo > ready; while :; do sleep 0.05; done",
		func(c *puppet.AgentConfig) { c.Timeout, c.Grace = 500*time.Millisecond, patience })
	run := start(t, agent, puppet.Order{ID: runID(t)})
	if result := wait(t, agent, run); result.Outcome != puppet.TimedOut {
		t.Errorf("%q because %q, want %q", result.Outcome, result.Reason, puppet.TimedOut)
	}
	if exists(filepath.Join(s.dir, "ready")) && !exists(filepath.Join(s.dir, "bye")) {
		t.Error("the run was not given time to end")
	}
}

func TestAgentOutputIsBounded(t *testing.T) {
	s := newStage(t)
	agent := s.agent("head -c 20000000 /dev/zero | tr '\\0' x; echo > written; until [ -e go ]; do sleep 0.02; done; echo the end; exit 0")
	run := start(t, agent, puppet.Order{ID: runID(t)})
	done := make(chan puppet.Result, 1)
	go func() { done <- wait(t, agent, run) }()
	eventually(t, "cut", func() bool {
		info, err := os.Stat(filepath.Join(s.dir, "run.out"))
		return err == nil && info.Size() == 0 && exists(filepath.Join(s.dir, "written"))
	})
	s.write("go", "")
	result := <-done
	if len(result.Stdout) > 64<<10 || !strings.HasSuffix(result.Stdout, "xxx"+"the end\n") {
		t.Errorf("stdout of %d bytes ends in %q", len(result.Stdout), result.Stdout[max(0, len(result.Stdout)-20):])
	}
	if size := len(s.read("run.out")); size > 2<<20 {
		t.Errorf("run.out has %d bytes", size)
	}
}

// MOD-01: the watcher ends, the run goes on, and the next watcher waits for it.
func TestAgentRunOutlivesItsWatcher(t *testing.T) {
	s := newStage(t)
	s.report("changed", runID(t))
	const script = "echo > ready; until [ -e go ]; do sleep 0.02; done; cp next.yaml report.yaml; exit 2"
	run := start(t, s.agent(script), puppet.Order{ID: runID(t)})
	eventually(t, "start", func() bool { return exists(filepath.Join(s.dir, "ready")) })

	first := s.agent(script)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := first.Wait(ctx, run); !errors.Is(err, context.Canceled) {
		t.Fatalf("wait ended with %v, want %v", err, context.Canceled)
	}
	if !run.Process.Alive() {
		t.Fatal("the run has ended with its watcher")
	}
	known := map[string]puppet.Run{"with its pid": run, "by its id": {ID: run.ID, Started: run.Started}}
	done := make(chan string, len(known))
	for name, known := range known {
		agent := s.agent(script)
		go func() {
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			result, err := agent.Wait(ctx, known)
			if err != nil || result.Outcome != puppet.Changed || result.Exit != -1 {
				t.Errorf("%s: %q because %q, exit %d, %v; want %q, exit -1", name, result.Outcome, result.Reason, result.Exit, err, puppet.Changed)
			}
			done <- name
		}()
	}
	select {
	case name := <-done:
		t.Fatalf("%s: the wait has ended before the run", name)
	case <-time.After(200 * time.Millisecond):
	}
	s.write("go", "")
	for range known {
		<-done
	}
}

func TestAgentNeverStarted(t *testing.T) {
	for _, proof := range []puppet.Proof{puppet.ProofAgent, puppet.ProofExit} {
		s := newStage(t)
		agent := s.agent("exit 0", func(c *puppet.AgentConfig) { c.Proof = proof })
		if result := wait(t, agent, puppet.Run{ID: runID(t), Started: time.Now()}); result.Outcome != puppet.NotRun {
			t.Errorf("%s: %q because %q, want %q", proof, result.Outcome, result.Reason, puppet.NotRun)
		}
	}
}

func TestNewAgentRefuses(t *testing.T) {
	if _, err := puppet.NewAgent(puppet.AgentConfig{Proof: "luck"}); !errors.Is(err, schemas.ErrInvalid) {
		t.Errorf("proof luck: %v, want %v", err, schemas.ErrInvalid)
	}
}

func TestParseProof(t *testing.T) {
	tests := []struct {
		command []string
		want    puppet.Proof
	}{
		{nil, puppet.ProofAgent},
		{puppet.DefaultCommand(), puppet.ProofAgent},
		{[]string{"/opt/puppetlabs/bin/puppet", "agent", "-t"}, puppet.ProofAgent},
		{[]string{"puppet", "apply", "/etc/site.pp"}, puppet.ProofApply},
		{[]string{"puppet"}, puppet.ProofExit},
		{[]string{"ansible-pull", "agent"}, puppet.ProofExit},
	}
	for _, tt := range tests {
		if got, err := puppet.ParseProof("", tt.command); got != tt.want || err != nil {
			t.Errorf("%q: %q, %v, want %q", tt.command, got, err, tt.want)
		}
	}
}

func TestAgentStartFails(t *testing.T) {
	agent, err := puppet.NewAgent(puppet.AgentConfig{Command: []string{"bellpull-no-such-program"}, Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := agent.Start(puppet.Order{ID: runID(t)}); !errors.Is(err, exec.ErrNotFound) {
		t.Errorf("%v, want %v", err, exec.ErrNotFound)
	}
}
