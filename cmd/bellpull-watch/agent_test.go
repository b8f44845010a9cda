package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/bellpull/bellpull/puppet"
)

// The default command with a real agent, against a stand-in for Puppet Server.
func TestRealPuppetAgent(t *testing.T) {
	s := newSite(t)
	m := newMaster(s, "web1.example.com")
	s.write("conf/puppet.conf", s.read("conf/puppet.conf")+"server = localhost\nserverport = "+m.port()+"\npluginsync = false\n")
	s.mkdir("vardir/facts.d")
	if err := os.Rename(filepath.Join(s.dir, "code/environments/production/modules/node/facts.d/bellpull"), filepath.Join(s.dir, "vardir/facts.d/bellpull")); err != nil {
		t.Fatal(err)
	}
	command := append([]string{"puppet", "agent", "--confdir", s.dir + "/conf"}, puppet.DefaultCommand()[2:]...)
	s.write("bellpull.yaml", regexp.MustCompile(`(?m)^watch:.*$`).ReplaceAllString(s.read("bellpull.yaml"), "watch: {command: ["+strings.Join(command, ", ")+"]}"))

	// The catalog keeps what the fact says, and what this server would have compiled from.
	m.serve(func(facts map[string]any) map[string]map[string]any {
		fact, _ := facts["bellpull"].(map[string]any)
		state, _ := fact["state"].(map[string]any)
		compiled := map[string]any{}
		scopes, _ := fact["scopes"].(map[string]any)
		for scope, revision := range scopes {
			compiled[scope] = map[string]any{"bucket": fact["bucket"], "revision": revision}
		}
		body, err := json.Marshal(compiled)
		if err != nil {
			t.Error(err)
		}
		return map[string]map[string]any{
			"File[" + s.dir + "/state/node/compiled.json]": {"content": string(body), "mode": "0600", "noop": false, "tag": puppet.CompiledTag},
			"File[" + s.dir + "/from-fact]":                {"content": fmt.Sprint(state["my::text"]), "tag": "app"},
		}
	})
	stop := s.start("watch.log", "bellpull-watch", "--log-level", "debug")
	s.put(`{"my::text":{"value":"first"}}`)
	s.until("booking", func() bool { return s.applied().Revision == 2 })
	if got := s.read("from-fact"); got != "first" {
		t.Errorf("the file holds %q, want first", got)
	}
	s.put(`{"my::text":{"value":"second","run":{"tags":["app"]}}}`)
	s.until("run limited to tags", func() bool { return s.read("from-fact") == "second" })
	s.until("end of that run", func() bool { return strings.Count(s.read("watch.log"), "applied: ") == 2 })
	stop()
	log := s.read("watch.log")
	for _, want := range []string{`proof=agent`, `outcome=changed .*exit=2`, `tags=\["?app"?\]`} {
		if !regexp.MustCompile(want).MatchString(log) {
			t.Errorf("no log line has %s", want)
		}
	}
	if regexp.MustCompile("not proven|behind").MatchString(log) || t.Failed() {
		t.Errorf("log:\n%s", log)
	}
	if report := s.read("vardir/state/last_run_report.yaml"); !strings.Contains(report, "job_id: "+regexp.MustCompile(`run: run=(\S+) .*tags=\["?app`).FindStringSubmatch(log)[1]) {
		t.Error("the report lacks the run's id")
	}

	t.Run("others", func(t *testing.T) { realOthers(t, s, command) })
	t.Run("disabled", func(t *testing.T) { realDisabled(t, s, command) })
	t.Run("stopped", func(t *testing.T) { realStopped(t, s, m, command) })
}

func (s *site) agent(t *testing.T, command []string, timeout time.Duration) *puppet.Agent {
	t.Helper()
	state := filepath.Join(s.dir, "vardir/state")
	agent, err := puppet.NewAgent(puppet.AgentConfig{
		Command: command, Dir: s.dir, Timeout: timeout, Env: []string{"BELLPULL_CONFIG=" + s.dir + "/bellpull.yaml"}, Paths: puppet.Paths{
			Lock: state + "/agent_catalog_run.lock", DisabledLock: state + "/agent_disabled.lock", Report: state + "/last_run_report.yaml",
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	return agent
}

func oneRun(t *testing.T, agent *puppet.Agent, id string) puppet.Result {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	started := time.Now()
	process, err := agent.Start(puppet.Order{ID: id})
	if err != nil {
		t.Fatal(err)
	}
	result, err := agent.Wait(ctx, puppet.Run{ID: id, Started: started, Process: process})
	if err != nil {
		t.Fatal(err)
	}
	return result
}

// WATCH-04: Puppet's own lock file and exit status, also when it speaks another language.
func realDisabled(t *testing.T, s *site, command []string) {
	t.Setenv("LANG", "de_DE.UTF-8")
	puppetAgent := func(args ...string) {
		t.Helper()
		if out, err := exec.Command("puppet", append([]string{"agent", "--confdir", s.dir + "/conf"}, args...)...).CombinedOutput(); err != nil {
			t.Fatalf("puppet agent %v: %v\n%s", args, err, out)
		}
	}
	puppetAgent("--disable", "maintenance window CHG-0001")
	agent := s.agent(t, command, patience)
	want := puppet.Blocked{Disabled: true, Message: "maintenance window CHG-0001"}
	if got := agent.Blocked(); got != want {
		t.Errorf("blocked %+v, want %+v", got, want)
	}
	if got := oneRun(t, agent, "disabled"); got.Outcome != puppet.NotRun || got.Exit != 1 || got.Blocked != want {
		t.Errorf("%q because %q, exit %d, want %q, exit 1", got.Outcome, got.Reason, got.Exit, puppet.NotRun)
	}
	puppetAgent("--enable")
	if got := agent.Blocked(); !got.Free() {
		t.Errorf("blocked %+v, want free", got)
	}
}

// An agent that is stopped exits with 0 and leaves what it was running behind.
func realStopped(t *testing.T, s *site, m *master, command []string) {
	m.serve(func(map[string]any) map[string]map[string]any {
		return map[string]map[string]any{"Exec[sleep]": {
			"command": "/bin/sh -c 'echo $$ > " + s.dir + "/sleeper; exec sleep 600'", "timeout": 0, "loglevel": "notice",
		}}
	})
	agent := s.agent(t, command, patience)
	id := "stopped"
	started := time.Now()
	process, err := agent.Start(puppet.Order{ID: id})
	if err != nil {
		t.Fatal(err)
	}
	s.until("the agent's command", func() bool { return strings.HasSuffix(s.read("sleeper"), "\n") })
	if got := agent.Blocked(); got.PID != process.PID {
		t.Errorf("blocked %+v, want by pid %d", got, process.PID)
	}
	var sleeper puppet.Process
	t.Cleanup(func() {
		for _, p := range []puppet.Process{process, sleeper} {
			if p.Alive() {
				_ = syscall.Kill(p.PID, syscall.SIGKILL) // gone just now: all the better
			}
		}
	})
	if _, err := fmt.Sscan(s.read("sleeper"), &sleeper.PID); err != nil {
		t.Fatal(err)
	}
	// Its time is over as soon as it is waited for.
	impatient := s.agent(t, command, time.Nanosecond)
	result, err := impatient.Wait(t.Context(), puppet.Run{ID: id, Started: started, Process: process})
	if err != nil {
		t.Fatal(err)
	}
	if result.Outcome != puppet.TimedOut {
		t.Errorf("%q because %q, want %q", result.Outcome, result.Reason, puppet.TimedOut)
	}
	if sleeper.Alive() {
		t.Error("the command that the agent was running lives on")
	}
	// To whoever waits for it without having stopped it, it was interrupted.
	result, err = agent.Wait(t.Context(), puppet.Run{ID: id, Started: started, Process: process})
	if err != nil {
		t.Fatal(err)
	}
	if result.Outcome != puppet.Failed || !strings.Contains(result.Reason, "interrupted") || result.Exit != 0 {
		t.Errorf("%q because %q, exit %d, want %q, interrupted, exit 0", result.Outcome, result.Reason, result.Exit, puppet.Failed)
	}
	if got := agent.Blocked(); !got.Free() {
		t.Errorf("blocked %+v, want free", got)
	}
}
