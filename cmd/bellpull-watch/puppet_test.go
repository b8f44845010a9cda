package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/bellpull/bellpull/cmd/internal/natstest"
	"github.com/bellpull/bellpull/cmd/internal/tools"
	"github.com/bellpull/bellpull/schemas"
)

// site is a node with a real Puppet whose catalog has class bellpull, the fact and
// Hiera, beside a server with a bucket.
type site struct {
	t      testing.TB
	dir    string
	server *natstest.Server
}

const sitePP = `
class { 'bellpull': state => '%[1]s/state' }
file {
  '%[1]s/from-fact':  content => $facts.dig('bellpull', 'state', 'my::text').lest || { 'nothing' };
  '%[1]s/from-hiera': content => lookup('my::text', default_value => 'nothing');
  '%[1]s/ban':        ensure  => lookup('my::ban', default_value => absent);
}
`

func newSite(t testing.TB) *site {
	t.Helper()
	if testing.Short() {
		t.Skip("real Puppet takes minutes: not in a short run")
	}
	tools.Need(t, "puppet", "facter", "go")
	s := &site{t: t, dir: t.TempDir(), server: natstest.Start(t)}
	natstest.Bucket(t, s.server)
	const environment = "code/environments/production/"
	s.write(environment+"hiera.yaml", `---
version: 5
hierarchy:
  - name: bellpull
    data_hash: bellpull::data
    uris: ["node/%{trusted.certname}", "group/web", "common"]
    options: {dir: "`+s.dir+`/hiera"}
`)
	s.write(environment+"manifests/site.pp", fmt.Sprintf(sitePP, s.dir))
	module, err := filepath.Abs("../../puppet")
	if err != nil {
		t.Fatal(err)
	}
	s.mkdir(environment + "modules/node/facts.d")
	// Puppet knows a module by its folder's name.
	if err := os.Symlink(module, filepath.Join(s.dir, environment, "modules/bellpull")); err != nil {
		t.Fatal(err)
	}
	build := exec.Command("go", "build", "-o", s.dir, "../bellpull-fact", "../bellpull-hiera")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	if err := os.Rename(filepath.Join(s.dir, "bellpull-fact"), filepath.Join(s.dir, environment, "modules/node/facts.d/bellpull")); err != nil {
		t.Fatal(err)
	}
	conf := "[main]\ncertname = web1.example.com\ncodedir = " + s.dir + "/code\n"
	for _, name := range []string{"vardir", "ssldir", "rundir", "logdir", "publicdir"} {
		conf += name + " = " + s.dir + "/" + name + "\n"
	}
	s.write("conf/puppet.conf", conf)
	s.write("bellpull.yaml", fmt.Sprintf(`
nats: {servers: ["%[2]s"]}
node: {certname: web1.example.com, hierarchy: ["node/{certname}", group/web, common]}
state: %[1]s/state
hiera: {dir: %[1]s/hiera}
watch: {command: [puppet, apply, --confdir, %[1]s/conf, --detailed-exitcodes, %[1]s/%[3]smanifests/site.pp]}
puppet: {lock: %[1]s/vardir/state/agent_catalog_run.lock, disabled_lock: %[1]s/vardir/state/agent_disabled.lock, report: %[1]s/vardir/state/last_run_report.yaml}
`, s.dir, s.server.URL(), environment))
	return s
}

func (s *site) mkdir(name string) {
	s.t.Helper()
	if err := os.MkdirAll(filepath.Join(s.dir, name), 0o755); err != nil {
		s.t.Fatal(err)
	}
}

func (s *site) write(name, text string) {
	s.t.Helper()
	s.mkdir(filepath.Dir(name))
	if err := os.WriteFile(filepath.Join(s.dir, name), []byte(text), 0o644); err != nil {
		s.t.Fatal(err)
	}
}

func (s *site) read(name string) string {
	text, err := os.ReadFile(filepath.Join(s.dir, name))
	if err != nil {
		return ""
	}
	return string(text)
}

// start starts a program in the background, with its log in the file log; stop
// ends it.
func (s *site) start(log, program string, args ...string) (stop func()) {
	s.t.Helper()
	f, err := os.OpenFile(filepath.Join(s.dir, log), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		s.t.Fatal(err)
	}
	defer f.Close()
	cmd := exec.Command(program, append(args, "--config", filepath.Join(s.dir, "bellpull.yaml"))...)
	cmd.Stderr = f
	if err := cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	stopped := false
	stop = func() {
		if stopped {
			return
		}
		stopped = true
		if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
			s.t.Error(err)
		}
		if err := cmd.Wait(); err != nil {
			s.t.Errorf("%s: %v\n%s", program, err, s.read(log))
		}
	}
	s.t.Cleanup(stop)
	return stop
}

func (s *site) until(what string, check func() bool) {
	s.t.Helper()
	if _, ok := eventually(func() (string, bool) { return "", check() }); !ok {
		s.t.Fatalf("%s: not within %v\n%s\n%s\n%s", what, patience, s.read("watch.log"), s.read("state/node/run.out"), s.read("state/node/run.err"))
	}
}

func (s *site) put(entries string) {
	s.t.Helper()
	if err := put(s.server, "group/web", entries); err != nil {
		s.t.Fatal(err)
	}
}

func (s *site) applied() schemas.AppliedScope {
	applied, err := schemas.ParseApplied([]byte(s.read("state/node/applied.json")))
	if err != nil {
		return schemas.AppliedScope{}
	}
	return applied.Scopes["group/web"]
}

// The whole way on real Puppet: a change in the bucket becomes a file on the node,
// by the fact and by Hiera, and is booked by the report, the fact's record and
// what class bellpull keeps of the compile.
func TestRealPuppetApply(t *testing.T) {
	s := newSite(t)
	stopSync := s.start("hiera.log", filepath.Join(s.dir, "bellpull-hiera"), "sync")
	s.until("first sync", func() bool { return s.read("hiera/synced.json") != "" })
	stopWatch := s.start("watch.log", "bellpull-watch", "--log-level", "debug")
	s.until("first reading", func() bool { return strings.Contains(s.read("watch.log"), `no run: why="equal data"`) })

	begin := time.Now()
	s.put(`{"my::text":{"value":"first"}}`)
	s.until("first change", func() bool { return s.read("from-fact") == "first" && s.read("from-hiera") == "first" })
	t.Logf("from put to file: %v", time.Since(begin).Round(time.Millisecond))
	s.until("booking", func() bool { return s.applied().Revision == 2 })

	// A ban that ends by itself.
	s.put(`{"my::text":{"value":"first"},"my::ban":{"value":"file","expires":"` + time.Now().Add(25*time.Second).UTC().Format(time.RFC3339) + `"}}`)
	s.until("ban", func() bool { return exists(filepath.Join(s.dir, "ban")) })
	s.until("end of the ban", func() bool { return !exists(filepath.Join(s.dir, "ban")) })
	s.until("booking of the end", func() bool { return len(s.applied().Entries) == 1 })
	if log := s.read("watch.log"); regexp.MustCompile("not proven|behind").MatchString(log) {
		t.Errorf("a run proved nothing:\n%s", log)
	}

	// A server that is behind is found out, and waited for.
	stopSync()
	s.put(`{"my::text":{"value":"second"}}`)
	s.until("server behind", func() bool {
		return regexp.MustCompile(`server behind: .*scope=group/web has=3 needs=4`).MatchString(s.read("watch.log"))
	})
	if got := s.applied(); got.Revision == 4 {
		t.Errorf("booked %+v, which the server did not use", got)
	}
	s.start("hiera.log", filepath.Join(s.dir, "bellpull-hiera"), "sync")
	s.until("server is current", func() bool { return s.applied().Revision == 4 && s.read("from-hiera") == "second" })

	// The same data again: nothing runs, and nothing is owed.
	runs := strings.Count(s.read("watch.log"), "run ended")
	s.put(`{"my::text":{"value":"second","event":"again"}}`)
	s.until("no run", func() bool {
		return regexp.MustCompile(`no run: why="equal data" .*revision=5`).MatchString(s.read("watch.log"))
	})
	stopWatch()
	if got := strings.Count(s.read("watch.log"), "run ended"); got != runs {
		t.Errorf("%d runs for equal data", got-runs)
	}
	// Debian's facter complains of machines that hide things from it; the fact has nothing to say.
	if stderr := s.read("state/node/run.err"); bytes.Contains([]byte(stderr), []byte("bellpull")) {
		t.Errorf("stderr of the run:\n%s", stderr)
	}
}

func exists(path string) bool { _, err := os.Stat(path); return err == nil }
