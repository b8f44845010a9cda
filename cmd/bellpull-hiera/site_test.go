package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bellpull/bellpull/cmd/internal/tools"
)

// site is a real Puppet with directories of its own, whose Hiera has bellpull's
// level over one of YAML, beside a server with a bucket.
type site struct {
	*place
	t   testing.TB
	dir string
	env string // the environment's directory
}

// answersFunction looks every key up and writes the answers to a file, so that
// one compile tells about many keys: {"value": …}, {} for a key that is not
// found, {"error": …}; a Sensitive value v comes as {"Sensitive": v}.
const answersFunction = `
Puppet::Functions.create_function(:'probe::answers') do
  dispatch :answers do
    param 'Array[String]', :keys
    param 'String', :file
  end

  def answers(keys, file)
    before = Process.clock_gettime(Process::CLOCK_PROCESS_CPUTIME_ID)
    all = keys.map { |key| [key, answer(key)] }.to_h
    seconds = Process.clock_gettime(Process::CLOCK_PROCESS_CPUTIME_ID) - before
    File.write(file, JSON.generate('answers' => all, 'seconds' => seconds))
  end

  def answer(key)
    value = call_function('lookup', key, { 'default_value' => :none })
    value == :none ? {} : { 'value' => show(value) }
  rescue StandardError => e
    { 'error' => e.message }
  end

  def show(value)
    case value
    when Puppet::Pops::Types::PSensitiveType::Sensitive then { 'Sensitive' => show(value.unwrap) }
    when Hash  then value.map { |k, v| [k, show(v)] }.to_h
    when Array then value.map { |v| show(v) }
    else value
    end
  end
end
`

// newSite makes the site. options are those of the level in hiera.yaml, besides dir.
func newSite(t testing.TB, options string) *site {
	t.Helper()
	if testing.Short() {
		t.Skip("real Puppet takes minutes: not in a short run")
	}
	tools.Need(t, "puppet")
	dir := t.TempDir()
	s := &site{place: newPlace(t, filepath.Join(dir, "hiera")), t: t, dir: dir, env: filepath.Join(dir, "code/environments/production")}
	module, err := filepath.Abs("../../puppet")
	if err != nil {
		t.Fatal(err)
	}
	s.write("code/environments/production/modules/probe/lib/puppet/functions/probe/answers.rb", answersFunction)
	// Puppet knows a module by its folder's name.
	if err := os.Symlink(module, filepath.Join(s.env, "modules/bellpull")); err != nil {
		t.Fatal(err)
	}
	s.hiera(options)
	s.write("code/environments/production/data/common.yaml", "--- {}\n")
	s.write("facts.json", `{"hostname": "web1", "domain": "example.com", "fqdn": "web1.example.com", "clientcert": "web1.example.com"}`)
	conf := "[main]\ncertname = web1.example.com\nusecacheonfailure = false\ncodedir = " + dir + "/code\n"
	for _, name := range []string{"vardir", "ssldir", "rundir", "logdir", "publicdir"} {
		conf += name + " = " + dir + "/" + name + "\n"
	}
	s.write("conf/puppet.conf", conf)
	return s
}

func (s *site) hiera(options string) {
	s.t.Helper()
	s.write("code/environments/production/hiera.yaml", `---
version: 5
hierarchy:
  - name: bellpull
    data_hash: bellpull::data
    uris: ["node/%{trusted.certname}", "group/web", "group/%{trusted.extensions.pp_role}", "common"]
    options: {dir: "`+s.place.hiera+`"`+options+`}
  - name: common
    data_hash: yaml_data
    datadir: data
    path: common.yaml
`)
}

func (s *site) write(name, text string) {
	s.t.Helper()
	path := filepath.Join(s.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		s.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		s.t.Fatal(err)
	}
}

// puppet runs Puppet. What Facter says of a machine that hides things from it is
// left out of stderr.
func (s *site) puppet(command string, args ...string) (stdout, stderr string, code int) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), 3*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "puppet", append([]string{command, "--confdir", filepath.Join(s.dir, "conf"), "--color=false"}, args...)...)
	var out, err bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &err
	var exit *exec.ExitError
	if e := cmd.Run(); e != nil && !errors.As(e, &exit) {
		s.t.Fatalf("puppet %s: %v", command, e)
	}
	lines := slices.DeleteFunc(strings.SplitAfter(err.String(), "\n"), func(line string) bool { return strings.Contains(line, "Facter: ") })
	return out.String(), strings.Join(lines, ""), cmd.ProcessState.ExitCode()
}

// lookup is `puppet lookup` for the node web1.example.com.
func (s *site) lookup(args ...string) (stdout, stderr string, code int) {
	s.t.Helper()
	return s.puppet("lookup", append([]string{"--node", "web1.example.com", "--facts", filepath.Join(s.dir, "facts.json")}, args...)...)
}

type answer struct {
	Value json.RawMessage // nil when it was not found
	Error string
}

// text is the value as JSON, or why there is none.
func (a answer) text() string {
	switch {
	case a.Error != "":
		return "error: " + a.Error
	case a.Value == nil:
		return "not found"
	}
	return string(a.Value)
}

// answers compiles and applies a catalog that looks all keys up, and tells how
// much CPU time the lookups took.
func (s *site) answers(keys ...string) (map[string]answer, time.Duration) {
	s.t.Helper()
	list, err := json.Marshal(keys)
	if err != nil {
		s.t.Fatal(err)
	}
	s.write("keys.json", string(list))
	file := filepath.Join(s.dir, "answers.json")
	s.write("code/environments/production/modules/probe/lib/puppet/functions/probe/keys.rb", `
Puppet::Functions.create_function(:'probe::keys') do
  def keys
    JSON.parse(File.read('`+filepath.Join(s.dir, "keys.json")+`'))
  end
end
`)
	s.write("probe.pp", "probe::answers(probe::keys(), '"+file+"')\n")
	if _, stderr, code := s.puppet("apply", filepath.Join(s.dir, "probe.pp")); code != 0 {
		s.t.Fatalf("puppet apply: exit code %d\n%s", code, stderr)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		s.t.Fatal(err)
	}
	var out struct {
		Answers map[string]answer
		Seconds float64
	}
	if err := json.Unmarshal(text, &out); err != nil {
		s.t.Fatalf("read %q: %v", text, err)
	}
	return out.Answers, time.Duration(out.Seconds * float64(time.Second))
}
