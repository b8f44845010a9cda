package puppet_test

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/bellpull/bellpull/puppet"
)

const configPrint = `echo "$*" >> asked
echo agent_catalog_run_lockfile = /var/cache/puppet/state/agent_catalog_run.lock
echo agent_disabled_lockfile = /var/cache/puppet/state/agent_disabled.lock
echo lastrunreport = /var/cache/puppet/state/last_run_report.yaml
echo config = $PWD/puppet.conf
`

func TestFindPaths(t *testing.T) {
	s := newStage(t)
	program := s.write("puppet", "#!/bin/sh\ncd "+s.dir+"\n"+configPrint)
	cache := filepath.Join(s.dir, "puppet.json")
	var settings []string
	find := func(given puppet.Paths) puppet.Paths {
		t.Helper()
		paths, err := puppet.FindPaths(t.Context(), given, puppet.Question{Program: program, Section: "agent", Settings: settings}, cache)
		if err != nil {
			t.Fatal(err)
		}
		return paths
	}
	want := puppet.Paths{
		Lock:         "/var/cache/puppet/state/agent_catalog_run.lock",
		DisabledLock: "/var/cache/puppet/state/agent_disabled.lock",
		Report:       "/var/cache/puppet/state/last_run_report.yaml",
	}
	for range 2 {
		if got := find(puppet.Paths{}); got != want {
			t.Errorf("%+v, want %+v", got, want)
		}
	}
	given := puppet.Paths{Report: "/srv/report.yaml"}
	if got := find(given); got.Report != given.Report || got.Lock != want.Lock {
		t.Errorf("%+v, want the given report and the lock that was asked for", got)
	}
	all := puppet.Paths{Lock: "/a", DisabledLock: "/b", Report: "/c"}
	if got := find(all); got != all {
		t.Errorf("%+v, want %+v", got, all)
	}
	if asked := strings.Count(s.read("asked"), "\n"); asked != 1 {
		t.Errorf("puppet was asked %d times, want 1", asked)
	}
	s.write("puppet.json", "{") // damaged: asked anew
	if got := find(puppet.Paths{}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	for range 2 {
		s.write("puppet.conf", "[main]\nvardir = /srv\n") // may have moved everything: asked anew
		if err := os.Chtimes(filepath.Join(s.dir, "puppet.conf"), time.Time{}, time.Unix(1e9, 0)); err != nil {
			t.Fatal(err)
		}
		find(puppet.Paths{})
	}
	settings = []string{"--confdir", "/srv/puppet"} // another Puppet: asked anew
	find(puppet.Paths{})
	const question = "config print --section agent agent_catalog_run_lockfile agent_disabled_lockfile lastrunreport config\n"
	other := strings.Replace(question, "print", "print --confdir /srv/puppet", 1)
	if asked := s.read("asked"); asked != strings.Repeat(question, 3)+other {
		t.Errorf("puppet was asked %q", asked)
	}
}

func TestFindPathsFails(t *testing.T) {
	for name, script := range map[string]string{
		"puppet fails":      "echo Error: no >&2; exit 1",
		"setting is absent": "echo lastrunreport = /x",
		"path is relative":  strings.ReplaceAll(configPrint, "/var", "var"),
	} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t)
			program := s.write("puppet", "#!/bin/sh\ncd "+s.dir+"\n"+script)
			cache := filepath.Join(s.dir, "puppet.json")
			if paths, err := puppet.FindPaths(t.Context(), puppet.Paths{}, puppet.Question{Program: program, Section: "agent"}, cache); err == nil {
				t.Errorf("%+v, want an error", paths)
			}
			if exists(cache) {
				t.Error("a failure was kept")
			}
		})
	}
}

func TestQuestionOf(t *testing.T) {
	for _, test := range []struct {
		command []string
		proof   puppet.Proof
		want    puppet.Question
	}{
		{nil, puppet.ProofAgent, puppet.Question{Program: "puppet", Section: "agent"}},
		{puppet.DefaultCommand(), puppet.ProofAgent, puppet.Question{Program: "puppet", Section: "agent"}},
		{[]string{"/opt/bin/puppet", "apply", "--vardir=/v", "x.pp"}, puppet.ProofApply,
			puppet.Question{Program: "/opt/bin/puppet", Section: "main", Settings: []string{"--vardir=/v"}}},
		{[]string{"puppet", "agent", "--confdir", "/c", "--onetime", "--server", "--statedir", "/s", "--tags", "x", "--config"}, puppet.ProofAgent,
			puppet.Question{Program: "puppet", Section: "agent", Settings: []string{"--confdir", "/c", "--statedir", "/s", "--config"}}},
		{[]string{"/srv/run"}, puppet.ProofAgent, puppet.Question{Program: "puppet", Section: "agent"}},
	} {
		if got := puppet.QuestionOf(test.command, test.proof); !reflect.DeepEqual(got, test.want) {
			t.Errorf("QuestionOf(%q, %s) = %+v, want %+v", test.command, test.proof, got, test.want)
		}
	}
}
