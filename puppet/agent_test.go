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

func start(t testing.TB, agent *puppet.Agent, order puppet.Order) puppet.Run {
	t.Helper()
	run := puppet.Run{ID: order.ID, Started: time.Now()}
	process, err := agent.Start(order)
	if err != nil {
		t.Fatal(err)
	}
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

// WATCH-05, and what exit codes do not say: the report decides.
func TestAgentResult(t *testing.T) {
	const id = "run-1"
	tests := []struct {
		name    string
		report  string
		jobID   string
		replace []string
		exit    int
		lock    string // file that is there when the run ends
		outcome puppet.Outcome
		reason  string
	}{
		{name: "nothing to do", report: "changed", jobID: id, replace: []string{"status: changed", "status: unchanged"}, outcome: puppet.Unchanged},
		{name: "changed", report: "changed", jobID: id, exit: 2, outcome: puppet.Changed},
		{name: "resource failed", report: "failed", jobID: id, exit: 4, outcome: puppet.Failed, reason: "1 resources failed: Exec[/bin/false]"},
		{name: "changed and failed", report: "failed", jobID: id, exit: 6, outcome: puppet.Failed, reason: "Exec[/bin/false]"},
		{name: "without detailed exit codes a failure is 0", report: "failed", jobID: id, exit: 0, outcome: puppet.Failed, reason: "Exec[/bin/false]"},
		{name: "exit code says failed, report does not", report: "changed", jobID: id, exit: 4, outcome: puppet.Failed, reason: "exit status 4"},
		{name: "killed", report: "changed", jobID: id, exit: 137, outcome: puppet.Failed, reason: "exit status 137"},
		{name: "ended by SIGTERM, which exits with 0", report: "interrupted", jobID: id, exit: 0, outcome: puppet.Failed, reason: "was interrupted"},
		{name: "cached catalog", report: "changed", jobID: id, exit: 2,
			replace: []string{"cached_catalog_status: not_used", "cached_catalog_status: on_failure"}, outcome: puppet.Failed, reason: "cached catalog"},
		{name: "no catalog", report: "interrupted", jobID: id, exit: 1,
			replace: []string{"Exec[/bin/sleep 300]:\n", "x: &x\n", "resource_statuses:\n", "resource_statuses: {}\nother:\n"},
			outcome: puppet.Failed, reason: "no catalog was applied"},
		{name: "report of another run", report: "changed", jobID: "run-0", exit: 2, outcome: puppet.Failed, reason: `job id "run-0"`},
		{name: "no report", exit: 0, outcome: puppet.Failed, reason: "there is no report"},
		{name: "no report, exit 1", exit: 1, outcome: puppet.Failed, reason: "exit status 1, and there is no report"},
		{name: "cut report", report: "changed", jobID: id, exit: 0, replace: []string{"cached_catalog_status: not_used", ""},
			outcome: puppet.Failed, reason: "is cut off"},
		{name: "disabled while it started", report: "changed", jobID: "run-0", exit: 1, lock: "disabled.lock",
			outcome: puppet.NotRun, reason: "agent is disabled: maintenance window CHG-0001"},
		{name: "locked by another run", report: "changed", jobID: "run-0", exit: 1, lock: "run.lock", outcome: puppet.NotRun, reason: "run lock is held by pid"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := newStage(t)
			script := ""
			if tt.report != "" {
				s.report(tt.report, tt.jobID, tt.replace...)
				script = "cp next.yaml report.yaml\n"
			}
			switch tt.lock {
			case "disabled.lock":
				script += `echo '{"disabled_message": "maintenance window CHG-0001"}' > disabled.lock` + "\n"
			case "run.lock":
				script += fmt.Sprintf("echo %d > run.lock\n", s.process("puppet"))
			}
			agent := s.agent(script + "exit " + strconv.Itoa(tt.exit))
			result := wait(t, agent, start(t, agent, puppet.Order{ID: id}))
			if result.Outcome != tt.outcome || !strings.Contains(result.Reason, tt.reason) || (tt.reason == "") != (result.Reason == "") {
				t.Errorf("%q because %q, want %q because %q", result.Outcome, result.Reason, tt.outcome, tt.reason)
			}
			if result.Exit != tt.exit {
				t.Errorf("exit %d, want %d", result.Exit, tt.exit)
			}
		})
	}
}

func TestAgentCommand(t *testing.T) {
	const record = "for a in \"$@\"; do echo \"[$a]\"; done > args; env | sort > env; exit 0"
	tests := []struct {
		name  string
		proof puppet.Proof
		order puppet.Order
		args  string
	}{
		{"agent", puppet.ProofAgent, puppet.Order{ID: "r1"}, "[--job-id]\n[r1]\n"},
		{"agent, tags", puppet.ProofAgent, puppet.Order{ID: "r1", Tags: []string{"a", "b"}}, "[--job-id]\n[r1]\n[--tags]\n[a,b,bellpull_compiled]\n"},
		{"apply, preview", puppet.ProofApply, puppet.Order{ID: "r1", Noop: true}, "[--noop]\n"},
		{"any command", puppet.ProofExit, puppet.Order{ID: "r1", Tags: []string{"a"}, Noop: true}, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := newStage(t)
			agent := s.agent(record, func(c *puppet.AgentConfig) { c.Proof = tt.proof })
			tt.order.Wanted = "/x/run.json"
			wait(t, agent, start(t, agent, tt.order))
			if got := s.read("args"); got != tt.args {
				t.Errorf("arguments %q, want %q", got, tt.args)
			}
			env := s.read("env")
			for _, want := range []string{"BELLPULL_RUN=r1\n", "BELLPULL_WANTED=/x/run.json\n"} {
				if !strings.Contains(env, want) {
					t.Errorf("environment lacks %q:\n%s", want, env)
				}
			}
			if got, want := strings.Contains(env, "BELLPULL_TAGS=a"), len(tt.order.Tags) > 0; got != want {
				t.Errorf("environment has tags: %v, want %v", got, want)
			}
			if got := strings.Contains(env, "BELLPULL_NOOP=true"); got != tt.order.Noop {
				t.Errorf("environment has noop: %v, want %v", got, tt.order.Noop)
			}
		})
	}
}

func TestAgentEnvironmentIsClean(t *testing.T) {
	t.Setenv("NOTIFY_SOCKET", "/run/systemd/notify")
	t.Setenv("BELLPULL_NATS_CREDS", "/etc/secret")
	t.Setenv("LANG", "de_DE.UTF-8")
	s := newStage(t)
	agent := s.agent("env > env", func(c *puppet.AgentConfig) { c.Env = []string{"BELLPULL_CONFIG=/etc/b.yaml"} })
	wait(t, agent, start(t, agent, puppet.Order{ID: "r1"}))
	env := s.read("env")
	for name, want := range map[string]bool{"NOTIFY_SOCKET=": false, "BELLPULL_NATS_CREDS=": false, "LANG=de_DE.UTF-8": true, "BELLPULL_CONFIG=/etc/b.yaml": true, "PATH=": true} {
		if got := strings.Contains(env, name); got != want {
			t.Errorf("%s in the environment: %v, want %v", name, got, want)
		}
	}
}

func TestAgentExitProof(t *testing.T) {
	s := newStage(t)
	agent := s.agent("echo out; echo no good >&2; exit 3", func(c *puppet.AgentConfig) { c.Proof = puppet.ProofExit; c.Paths = puppet.Paths{} })
	result := wait(t, agent, start(t, agent, puppet.Order{ID: "r1"}))
	if result.Outcome != puppet.Failed || !strings.Contains(result.Reason, "exit status 3") || !strings.Contains(result.Reason, "run.err") {
		t.Errorf("%q because %q", result.Outcome, result.Reason)
	}
	if result.Stdout != "out\n" || result.Stderr != "no good\n" {
		t.Errorf("stdout %q, stderr %q", result.Stdout, result.Stderr)
	}
	agent = s.agent("exit 0", func(c *puppet.AgentConfig) { c.Proof = puppet.ProofExit })
	if result := wait(t, agent, start(t, agent, puppet.Order{ID: "r2"})); !result.Success() || result.Stdout != "" {
		t.Errorf("%q because %q, stdout %q", result.Outcome, result.Reason, result.Stdout)
	}
}

// puppet apply has no job id: its report counts if it was begun after the start.
func TestAgentApplyProof(t *testing.T) {
	for _, tt := range []struct {
		name  string
		begun time.Duration
		want  puppet.Outcome
	}{{"after", time.Hour, puppet.Changed}, {"before", -time.Hour, puppet.Failed}} {
		t.Run(tt.name, func(t *testing.T) {
			s := newStage(t)
			body, err := os.ReadFile(filepath.Join("testdata", "reports", "changed.yaml"))
			if err != nil {
				t.Fatal(err)
			}
			lines := strings.SplitN(string(body), "\n", 4)
			lines[2] = "time: '" + time.Now().Add(tt.begun).UTC().Format(time.RFC3339Nano) + "'"
			s.write("next.yaml", strings.Join(lines, "\n"))
			agent := s.agent("cp next.yaml report.yaml; exit 2", func(c *puppet.AgentConfig) { c.Proof = puppet.ProofApply })
			if result := wait(t, agent, start(t, agent, puppet.Order{ID: "r1"})); result.Outcome != tt.want {
				t.Errorf("%q because %q, want %q", result.Outcome, result.Reason, tt.want)
			}
		})
	}
}

// Puppet leaves the command that it was running behind when it is stopped, and
// gives it a session of its own; and some programs ignore TERM.
func TestAgentTimeout(t *testing.T) {
	s := newStage(t)
	agent := s.agent(`trap '' TERM
setsid sh -c 'trap "" TERM; echo $$ > grandchild; while :; do sleep 1; done' &
while :; do sleep 1; done`, func(c *puppet.AgentConfig) { c.Timeout = 300 * time.Millisecond })
	run := start(t, agent, puppet.Order{ID: "r1"})
	eventually(t, "grandchild", func() bool { return exists(filepath.Join(s.dir, "grandchild")) && s.read("grandchild") != "" })
	result := wait(t, agent, run)
	if result.Outcome != puppet.TimedOut {
		t.Errorf("%q because %q, want %q", result.Outcome, result.Reason, puppet.TimedOut)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(s.read("grandchild")))
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range []puppet.Process{run.Process, {PID: pid}} {
		eventually(t, fmt.Sprintf("end of pid %d", p.PID), func() bool { return !p.Alive() })
	}
}

// A run that ends on TERM has time to write its report and to give the lock back.
func TestAgentTimeoutGrace(t *testing.T) {
	s := newStage(t)
	agent := s.agent("trap 'echo bye > bye; exit 0' TERM; echo > ready; while :; do sleep 0.05; done",
		func(c *puppet.AgentConfig) { c.Timeout, c.Grace = 500*time.Millisecond, patience })
	run := start(t, agent, puppet.Order{ID: "r1"})
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
	run := start(t, agent, puppet.Order{ID: "r1"})
	done := make(chan puppet.Result, 1)
	go func() {
		result, _ := agent.Wait(t.Context(), run)
		done <- result
	}()
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
	s.report("changed", "r1")
	const script = "echo > ready; until [ -e go ]; do sleep 0.02; done; cp next.yaml report.yaml; exit 2"
	run := start(t, s.agent(script), puppet.Order{ID: "r1"})
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
			result, err := agent.Wait(t.Context(), known)
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
		if result := wait(t, agent, puppet.Run{ID: "r1", Started: time.Now()}); result.Outcome != puppet.NotRun {
			t.Errorf("%s: %q because %q, want %q", proof, result.Outcome, result.Reason, puppet.NotRun)
		}
	}
}

func TestAgentBlocked(t *testing.T) {
	dead := exec.Command("true")
	if err := dead.Run(); err != nil {
		t.Fatal(err)
	}
	s := newStage(t)
	agent := s.agent("exit 0")
	holder := s.process("puppet")
	tests := []struct {
		name, lock, disabled string
		want                 puppet.Blocked
	}{
		{name: "free"},
		{name: "run under way", lock: strconv.Itoa(holder), want: puppet.Blocked{PID: holder}},
		{name: "stale lock", lock: strconv.Itoa(dead.Process.Pid)},
		{name: "pid is another program's now", lock: strconv.Itoa(s.process("other"))},
		{name: "lock without pid", lock: "x"},
		{name: "disabled", disabled: `{"disabled_message":"maintenance window CHG-0001"}`, want: puppet.Blocked{Disabled: true, Message: "maintenance window CHG-0001"}},
		{name: "disabled with odd text", disabled: "x", want: puppet.Blocked{Disabled: true}},
		{name: "disabled goes before locked", disabled: "{}", lock: strconv.Itoa(holder), want: puppet.Blocked{Disabled: true}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for file, body := range map[string]string{s.paths.Lock: tt.lock, s.paths.DisabledLock: tt.disabled} {
				if err := os.Remove(file); err != nil && !errors.Is(err, os.ErrNotExist) {
					t.Fatal(err)
				}
				if body != "" {
					s.write(filepath.Base(file), body)
				}
			}
			if got := agent.Blocked(); got != tt.want {
				t.Errorf("%+v, want %+v", got, tt.want)
			}
			if tt.disabled != "" && s.read("disabled.lock") != tt.disabled {
				t.Error("the lock was touched")
			}
		})
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
	if _, err := agent.Start(puppet.Order{ID: "r1"}); !errors.Is(err, exec.ErrNotFound) {
		t.Errorf("%v, want %v", err, exec.ErrNotFound)
	}
}
