package acceptance_test

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/bellpull/bellpull/cmd/internal/puppetserver"
	"github.com/bellpull/bellpull/schemas"
)

// node is an agent with a watcher.
type node struct {
	*puppetserver.Agent
	e *estate
}

// node enrolls an agent of a role. Its NATS credentials are its Puppet certificate.
func (e *estate) node(name, role string) *node {
	e.t.Helper()
	agent, err := e.server.Agent(name, map[string]string{"pp_role": role})
	if err != nil {
		e.t.Fatal(err)
	}
	if err := agent.Enroll(e.t.Context()); err != nil {
		e.t.Fatal(err)
	}
	n := &node{Agent: agent, e: e}
	e.whole.Cleanup(func() {
		if e.whole.Failed() {
			e.whole.Logf("the watcher of %s: %s", name, last(e.read(n.file("watch.log")), 30))
		}
	})
	config := n.file("bellpull.yaml")
	agent.Env = []string{"BELLPULL_CONFIG=" + e.path(config)}
	e.write(config, fmt.Sprintf(`
nats: {servers: ["%s"], tls: {ca: "%[2]s/certs/ca.pem", cert: "%[2]s/certs/%[3]s.pem", key: "%[2]s/private_keys/%[3]s.pem"}}
state: %[4]s/state
watch: {command: ["%[5]s"], quiet: 50ms}
`, e.url(), filepath.Join(agent.Dir, "ssldir"), name, agent.Dir, strings.Join(agent.Command(), `","`)))
	return n
}

func (n *node) file(name string) string { return filepath.Join("agents", n.Name, name) }

// watch starts the node's watcher.
func (n *node) watch() (stop func()) {
	n.e.t.Helper()
	return n.e.start(n.e.t, exec.Command(filepath.Join(n.e.bin, "bellpull-watch"), "--config", n.e.path(n.file("bellpull.yaml"))), n.file("watch.log"))
}

// run is one agent run by hand, in an environment.
func (n *node) run(environment string) (output string, code int) {
	n.e.t.Helper()
	output, code, err := n.Run(n.e.t.Context(), "--environment", environment)
	if err != nil {
		n.e.t.Fatal(err)
	}
	return output, code
}

// says waits until a file of the node holds a text.
func (n *node) says(file, want string) {
	n.e.t.Helper()
	n.e.until(fmt.Sprintf("%s: %s says %q", n.Name, file, want), func() bool { return n.e.read(n.file(file)) == want })
}

// logged counts the lines of the watcher's log that hold all the texts.
func (n *node) logged(texts ...string) (count int) {
	for line := range strings.Lines(n.e.read(n.file("watch.log"))) {
		if !slices.ContainsFunc(texts, func(text string) bool { return !strings.Contains(line, text) }) {
			count++
		}
	}
	return count
}

// applied waits until the watcher has booked a revision of a scope as applied.
func (n *node) applied(scope schemas.Scope, revision uint64) {
	n.e.t.Helper()
	n.e.until(fmt.Sprintf("%s: revision %d of %s is booked as applied", n.Name, revision, scope), func() bool { return n.booked(scope, revision) })
}

func (n *node) booked(scope schemas.Scope, revision uint64) bool {
	booked := regexp.MustCompile(fmt.Sprintf(`\bapplied: .*\b%s:%d\b`, regexp.QuoteMeta(string(scope)), revision))
	return booked.MatchString(n.e.read(n.file("watch.log")))
}
