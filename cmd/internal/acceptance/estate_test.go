package acceptance_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/bellpull/bellpull/cmd/internal/natskv"
	"github.com/bellpull/bellpull/cmd/internal/natstest"
	"github.com/bellpull/bellpull/cmd/internal/puppetserver"
	"github.com/bellpull/bellpull/cmd/internal/tools"
	"github.com/bellpull/bellpull/schemas"
)

// patience is for what takes a few agent runs on a busy machine.
const patience = 2 * time.Minute

// estate is a Puppet Server with bellpull beside it.
type estate struct {
	t      *testing.T // the story that is told
	whole  *testing.T // all of them
	server *puppetserver.Server
	nats   *natstest.Server
	bucket *natskv.Bucket // as an administrator who is quicker than the command
	bin    string         // bellpull's programs
	stop   func()         // ends the sync; nil = none runs
}

// hieraYAML is an environment's hierarchy: bellpull's level over one of YAML.
const hieraYAML = `---
version: 5
hierarchy:
  - name: bellpull
    data_hash: bellpull::data
    uris: ["node/%%{trusted.certname}", "group/%%{trusted.extensions.pp_role}", "common"]
    options: {dir: "%s", %s}
  - name: site
    data_hash: yaml_data
    datadir: data
    path: common.yaml
`

// sitePP writes what fact and Hiera say to files of the node.
const sitePP = `
$base = "%s/agents/${trusted['certname']}"
$text = lookup('app::text', default_value => 'nothing')
held($trusted['certname'])
class { 'bellpull': state => "${base}/state" }
file {
  "${base}/text": content => $text;
  "${base}/late": content => lookup('app::late', default_value => 'nothing');
  "${base}/fact": content => $facts.dig('bellpull', 'state', 'app::text').lest || { 'nothing' };
}
notify { 'compiled': message => "text=${text} ${bellpull::compiled()}" }
`

// heldFunction keeps a compile of a node waiting while the file hold-NAME is there,
// and says so by the file held-NAME.
const heldFunction = `
Puppet::Functions.create_function(:held) do
  dispatch(:held) { param 'String', :name }

  def held(name)
    hold = "%[1]s/hold-#{name}"
    return unless File.exist?(hold)

    File.write("%[1]s/held-#{name}", '')
    sleep 0.05 while File.exist?(hold)
  end
end
`

func newEstate(t *testing.T) *estate {
	t.Helper()
	if testing.Short() {
		t.Skip("a Puppet Server takes minutes: not in a short run")
	}
	tools.Need(t, "puppet", "facter", "puppetserver", "java", "go")
	e := &estate{t: t, whole: t}
	s, err := puppetserver.Start(t.Context(), puppetserver.Config{Instances: 2, Install: func(s *puppetserver.Server) error {
		e.server, e.bin = s, filepath.Join(s.Dir, "bin")
		e.install()
		return nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("Puppet Server's log ends with\n%s", last(s.Log(), 40))
		}
		if err := s.Stop(); err != nil {
			t.Error(err)
		}
	})
	e.startNATS()
	return e
}

// startNATS starts a server that wants certificates of Puppet's authority, and tells
// bellpull where it is.
func (e *estate) startNATS() {
	e.t.Helper()
	pem, err := os.ReadFile(e.path("ca/ca_crt.pem"))
	if err != nil {
		e.t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(pem)
	pair, err := tls.LoadX509KeyPair(e.path("ssl/certs/localhost.pem"), e.path("ssl/private_keys/localhost.pem"))
	if err != nil {
		e.t.Fatal(err)
	}
	e.nats = natstest.Start(e.t, func(o *server.Options) {
		o.TLSConfig = &tls.Config{Certificates: []tls.Certificate{pair}, ClientCAs: pool, ClientAuth: tls.RequireAndVerifyClientCert, MinVersion: tls.VersionTLS12}
	})
	e.bucket = natstest.Dial(e.t, natskv.Config{Servers: []string{e.url()}, TLS: natskv.TLS{
		CA: e.path("ca/ca_crt.pem"), Cert: e.path("ssl/certs/localhost.pem"), Key: e.path("ssl/private_keys/localhost.pem"),
	}})
	if _, err := e.bucket.Init(e.t.Context(), natskv.InitOptions{}); err != nil {
		e.t.Fatal(err)
	}
	e.write("bellpull.yaml", fmt.Sprintf(`
nats: {servers: ["%s"], tls: {ca: "%[2]s/ca/ca_crt.pem", cert: "%[2]s/ssl/certs/localhost.pem", key: "%[2]s/ssl/private_keys/localhost.pem"}}
state: %[2]s/state
hiera: {dir: %[2]s/hiera}
`, e.url(), e.server.Dir))
}

// url names the server as its certificate does.
func (e *estate) url() string { return strings.Replace(e.nats.URL(), "127.0.0.1", "localhost", 1) }

// install builds bellpull and gives the server its modules and environments.
func (e *estate) install() {
	e.t.Helper()
	build := exec.Command("go", "build", "-o", e.bin+"/", "../../bellpull", "../../bellpull-fact", "../../bellpull-hiera", "../../bellpull-watch")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		e.t.Fatalf("go build: %v\n%s", err, out)
	}
	if err := e.server.Module("bellpull", "../../../puppet"); err != nil {
		e.t.Fatal(err)
	}
	e.write("code/modules/held/lib/puppet/functions/held.rb", fmt.Sprintf(heldFunction, e.server.Dir+"/hold"))
	if err := os.MkdirAll(e.path("hold"), 0o777); err != nil {
		e.t.Fatal(err)
	}
	if err := os.Chmod(e.path("hold"), 0o777); err != nil { // whatever the umask says
		e.t.Fatal(err)
	}
	// Puppet gives every agent the fact, mode and all.
	e.write("code/modules/node/facts.d/README.md", "")
	if err := os.Link(filepath.Join(e.bin, "bellpull-fact"), e.path("code/modules/node/facts.d/bellpull")); err != nil {
		e.t.Fatal(err)
	}
	e.environment("production", "hiera", "max_age: 300", "unlimited")
	e.environment("second", "hiera", "max_age: 300", "unlimited")
	e.environment("aged", "hiera", "max_age: 1", "unlimited")
	e.environment("strict", "hiera", "max_age: 1, on_stale: fail", "0")
	e.environment("never", "never-synced", "max_age: 300", "0")
}

// environment makes an environment whose bellpull level reads the directory.
func (e *estate) environment(name, dir, options, timeout string) {
	e.t.Helper()
	base := "code/environments/" + name + "/"
	e.write(base+"hiera.yaml", fmt.Sprintf(hieraYAML, e.path(dir), options))
	e.write(base+"environment.conf", "environment_timeout = "+timeout+"\n")
	e.write(base+"data/common.yaml", "---\napp::text: lower\napp::late: lower\n")
	e.write(base+"manifests/site.pp", fmt.Sprintf(sitePP, e.server.Dir))
}

func (e *estate) path(name string) string { return filepath.Join(e.server.Dir, name) }

func (e *estate) write(name, text string) {
	e.t.Helper()
	if err := e.server.Write(name, text); err != nil {
		e.t.Fatal(err)
	}
}

func (e *estate) read(name string) string {
	text, _ := os.ReadFile(e.path(name)) // what is not there is empty
	return string(text)
}

// sync starts the sync as the server's own user, and waits until it has synced.
func (e *estate) sync() {
	e.t.Helper()
	if e.stop != nil {
		return
	}
	cmd := e.server.Command(context.Background(), filepath.Join(e.bin, "bellpull-hiera"), "sync", "--config", e.path("bellpull.yaml"))
	e.stop = e.start(e.whole, cmd, "sync.log")
	done := strings.Count(e.read("sync.log"), "are equal to the bucket")
	e.until("the sync has synced", func() bool { return strings.Count(e.read("sync.log"), "are equal to the bucket") > done })
}

// unsync ends the sync.
func (e *estate) unsync() {
	e.t.Helper()
	if e.stop != nil {
		e.stop()
		e.stop = nil
	}
}

// start starts a program with its log in a file, and returns what ends it, as the
// end of the test does.
func (e *estate) start(t *testing.T, cmd *exec.Cmd, log string) (stop func()) {
	t.Helper()
	f, err := os.OpenFile(e.path(log), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	cmd.Stdout, cmd.Stderr = f, f
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := false
	stop = func() {
		if ended {
			return
		}
		ended = true
		if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Error(err)
		}
		if err := cmd.Wait(); err != nil {
			t.Errorf("%s: %v\n%s", cmd.Path, err, last(e.read(log), 20))
		}
	}
	t.Cleanup(stop)
	return stop
}

// bellpull runs the command of that name.
func (e *estate) bellpull(args ...string) string {
	e.t.Helper()
	ctx, cancel := context.WithTimeout(e.t.Context(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, filepath.Join(e.bin, "bellpull"), args...)
	cmd.Env = append(os.Environ(), "BELLPULL_CONFIG="+e.path("bellpull.yaml"))
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		e.t.Fatalf("bellpull %s: %v\n%s", strings.Join(args, " "), err, stderr.Bytes())
	}
	return string(out)
}

// put is an event that sets an entry; it returns the scope's revision.
func (e *estate) put(scope schemas.Scope, entry, value string) uint64 {
	e.t.Helper()
	e.bellpull("put", string(scope), entry, fmt.Sprintf("%q", value))
	reading, err := e.bucket.Read(e.t.Context(), []schemas.Scope{scope})
	if err != nil {
		e.t.Fatal(err)
	}
	return reading.Scopes[0].Revision
}

// synced waits until the data file of a scope has a revision or a later one.
func (e *estate) synced(scope schemas.Scope, revision uint64) {
	e.t.Helper()
	e.until(fmt.Sprintf("the data file of %s has revision %d", scope, revision), func() bool {
		first, _, _ := strings.Cut(e.read("hiera/"+scope.FileName()), "\n")
		var head struct{ Revision uint64 }
		return json.Unmarshal([]byte(first), &head) == nil && head.Revision >= revision
	})
}

func (e *estate) until(what string, check func() bool) {
	e.t.Helper()
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for !check() {
		select {
		case <-deadline.C:
			e.t.Fatalf("%s: not within %v\n%s", what, patience, last(e.read("sync.log"), 10))
		case <-tick.C:
		}
	}
}

// last returns the last lines of a text.
func last(text string, lines int) string {
	all := strings.SplitAfter(text, "\n")
	return strings.Join(all[max(0, len(all)-lines):], "")
}
