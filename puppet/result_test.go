package puppet_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/bellpull/bellpull/puppet"
)

// WATCH-05, and what exit codes do not say: the report decides.
func TestAgentResult(t *testing.T) {
	id := runID(t)
	tests := []struct {
		name    string
		report  string
		jobID   string
		replace []string
		exit    int
		lock    string // file that is there when the run ends
		says    string // on standard error
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
			outcome: puppet.Failed, reason: "no catalog was applied: change from 'notrun' to ['0'] failed: SIGTERM"},
		{name: "no catalog, and Puppet's closing error", report: "interrupted", jobID: id, exit: 1,
			replace: []string{"change from ''notrun'' to [''0''] failed: SIGTERM", "Could not retrieve catalog; skipping run",
				"Exec[/bin/sleep 300]:\n", "x: &x\n", "resource_statuses:\n", "resource_statuses: {}\nother:\n"},
			outcome: puppet.Failed, reason: "no catalog was applied: it did not compile, or the server was out of reach"},
		{name: "no report, but a word on stderr", exit: 1, says: "Error: Could not parse application options", outcome: puppet.Failed,
			reason: `exit status 1, and there is no report; it said "Error: Could not parse application options"`},
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
			if tt.says != "" {
				script += "echo '" + tt.says + "' >&2\n"
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
			tt.order.Changes = []puppet.Due{
				{Scope: "group/web", Entry: "fw", Why: "changed", Event: "e1"}, {Scope: "group/web", Entry: "my::text[x y]", Why: "removed"}, {Scope: "common", Why: "unproven"},
			}
			wait(t, agent, start(t, agent, tt.order))
			if got := s.read("args"); got != tt.args {
				t.Errorf("arguments %q, want %q", got, tt.args)
			}
			env := s.read("env")
			changes := regexp.MustCompile(`(?m)^BELLPULL_CHANGES=(.*)$`).FindStringSubmatch(env)
			if changes == nil {
				t.Fatalf("environment lacks BELLPULL_CHANGES:\n%s", env)
			}
			body, err := os.ReadFile(changes[1])
			if err != nil {
				t.Fatal(err)
			}
			for _, want := range []string{
				`"run":"r1"`, fmt.Sprintf(`"noop":%v`, tt.order.Noop), `{"scope":"group/web","entry":"fw","why":"changed","event":"e1"}`,
				`{"scope":"common","entry":"","why":"unproven"}`,
			} {
				if !strings.Contains(string(body), want) {
					t.Errorf("%s lacks %s: %s", changes[1], want, body)
				}
			}
			for _, want := range []string{
				"BELLPULL_RUN=r1\n", "BELLPULL_WANTED=/x/run.json\n", "BELLPULL_SCOPES=common,group/web\n",
				"BELLPULL_ENTRIES=group/web fw\n", "group/web my::text[x y]\n",
			} {
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
	wait(t, agent, start(t, agent, puppet.Order{ID: runID(t)}))
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
	result := wait(t, agent, start(t, agent, puppet.Order{ID: runID(t)}))
	if result.Outcome != puppet.Failed || !strings.Contains(result.Reason, "exit status 3") || !strings.Contains(result.Reason, "run.err") {
		t.Errorf("%q because %q", result.Outcome, result.Reason)
	}
	if result.Stdout != "out\n" || result.Stderr != "no good\n" {
		t.Errorf("stdout %q, stderr %q", result.Stdout, result.Stderr)
	}
	agent = s.agent("exit 0", func(c *puppet.AgentConfig) { c.Proof = puppet.ProofExit })
	if result := wait(t, agent, start(t, agent, puppet.Order{ID: runID(t) + "-2"})); !result.Success() || result.Stdout != "" {
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
			if result := wait(t, agent, start(t, agent, puppet.Order{ID: runID(t)})); result.Outcome != tt.want {
				t.Errorf("%q because %q, want %q", result.Outcome, result.Reason, tt.want)
			}
		})
	}
}

// However much has changed, the run can be started, and its file is whole.
func TestAgentManyChanges(t *testing.T) {
	s := newStage(t)
	agent := s.agent("echo ${#BELLPULL_ENTRIES} > size; cp $BELLPULL_CHANGES all", func(c *puppet.AgentConfig) { c.Proof = puppet.ProofExit })
	order := puppet.Order{ID: "r1"}
	for i := range 10_000 {
		order.Changes = append(order.Changes, puppet.Due{Scope: "group/web", Entry: fmt.Sprintf("my_firewall::rules[tcp-%d]", i), Why: "new"})
	}
	if result := wait(t, agent, start(t, agent, order)); !result.Success() {
		t.Fatalf("%q because %q", result.Outcome, result.Reason)
	}
	if size, err := strconv.Atoi(strings.TrimSpace(s.read("size"))); err != nil || size < 30<<10 || size > 32<<10 {
		t.Errorf("BELLPULL_ENTRIES has %d bytes, %v, want nearly 32 KiB", size, err)
	}
	if got := strings.Count(s.read("all"), `"why":"new"`); got != 10_000 {
		t.Errorf("the file has %d changes, want 10000", got)
	}
}
