package puppetserver

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// packaged is where the distribution's package has its configuration.
const packaged = "/etc/puppet/puppetserver"

const puppetserverConf = `jruby-puppet: {
  ruby-load-path: [/usr/lib/puppetserver/ruby/vendor_ruby]
  gem-home: {dir}/gems
  gem-path: ["{dir}/gems", "/usr/lib/puppetserver/vendored-jruby-gems"]
  server-conf-dir: {dir}/puppet
  server-code-dir: {dir}/code
  server-var-dir: {dir}/var
  server-run-dir: {dir}/run
  server-log-dir: {dir}/log
  max-active-instances: {instances}
}
http-client: {}
profiler: { enabled: true }
`

const puppetConf = `[main]
certname = localhost
server = localhost
dns_alt_names = localhost,puppet
confdir = {dir}/puppet
codedir = {dir}/code
vardir = {dir}/var
ssldir = {dir}/ssl
cadir = {dir}/ca
logdir = {dir}/log
rundir = {dir}/run
basemodulepath = {dir}/code/modules

[server]
autosign = true
environment_timeout = {timeout}
storeconfigs = false
reports = store
reportdir = {dir}/var/reports
`

// configure writes the package's configuration with directories and a port of
// the server's own.
func (s *Server) configure() error {
	fill := strings.NewReplacer("{dir}", s.Dir, "{port}", strconv.Itoa(s.Port), "{instances}", strconv.Itoa(s.cfg.Instances), "{timeout}", s.cfg.Timeout)
	files := map[string]string{
		"puppet/puppet.conf":       puppetConf,
		"conf.d/puppetserver.conf": puppetserverConf,
		"conf.d/ca.conf":           "certificate-authority: { allow-subject-alt-names: true }\n",
		"conf.d/global.conf":       "global: { logging-config: {dir}/logback.xml }\n",
		"conf.d/webserver.conf":    "webserver: { access-log-config: {dir}/request-logging.xml, client-auth: want, ssl-host: 127.0.0.1, ssl-port: {port} }\n",
	}
	for name, text := range files {
		files[name] = fill.Replace(text)
	}
	for _, name := range []string{"code/environments", "code/modules", "var/reports", "run", "log", "gems", "ca", "agents"} {
		if err := os.MkdirAll(s.path(name), 0o755); err != nil {
			return err
		}
	}
	for _, edit := range []struct {
		from, to string
		change   func(string) string
	}{
		// The analytics service asks a vendor's server for newer versions.
		{"services.d/bootstrap.cfg", "services.d/bootstrap.cfg", func(text string) string { return without(text, "analytics-service") }},
		{"services.d/ca.cfg", "services.d/ca.cfg", nil},
		// Any node may have the environments read anew: a test changes them.
		{"conf.d/auth.conf", "conf.d/auth.conf", func(text string) string {
			return strings.Replace(text, "    rules: [", `    rules: [ { match-request: { path: "/puppet-admin-api/v1", type: path, method: [get, delete] }, allow: "*", sort-order: 200, name: "tests" },`, 1)
		}},
		{"conf.d/metrics.conf", "conf.d/metrics.conf", nil},
		{"conf.d/web-routes.conf", "conf.d/web-routes.conf", nil},
		{"logback.xml", "logback.xml", func(text string) string {
			return strings.ReplaceAll(without(text, "logappender"), "/var/log/puppetserver", s.path("log"))
		}},
		{"request-logging.xml", "request-logging.xml", func(text string) string {
			return strings.ReplaceAll(text, "/var/log/puppetserver", s.path("log"))
		}},
	} {
		text, err := os.ReadFile(filepath.Join(packaged, edit.from))
		if err != nil {
			return err
		}
		files[edit.to] = string(text)
		if edit.change != nil {
			files[edit.to] = edit.change(files[edit.to])
		}
	}
	for name, text := range files {
		if err := s.Write(name, text); err != nil {
			return err
		}
	}
	return s.own()
}

// without leaves out the lines that hold a word.
func without(text, word string) string {
	var kept []string
	for line := range strings.Lines(text) {
		if !strings.Contains(line, word) {
			kept = append(kept, line)
		}
	}
	return strings.Join(kept, "")
}

// own gives everything to the user whom the server runs as.
func (s *Server) own() error {
	if os.Getuid() != 0 {
		return nil
	}
	uid, _ := strconv.Atoi(s.account.Uid)
	gid, _ := strconv.Atoi(s.account.Gid)
	return filepath.WalkDir(s.Dir, func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return os.Lchown(path, uid, gid)
	})
}

// Write writes a file below Dir, by renaming, for all to read. Environments lie in
// code/environments, modules for all of them in code/modules.
func (s *Server) Write(name, text string) error {
	path := s.path(name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	if old, err := os.ReadFile(path); err == nil && bytes.Equal(old, []byte(text)) {
		return nil
	}
	temp := path + ".new"
	if err := os.WriteFile(temp, []byte(text), 0o644); err != nil {
		return err
	}
	return os.Rename(temp, path)
}

// Module copies a Puppet module out of a source directory: what a module's
// package would hold, and nothing else.
func (s *Server) Module(name, source string) error {
	for _, part := range []string{"lib", "manifests", "types", "data", "templates", "functions", "files", "facts.d", "hiera.yaml", "metadata.json"} {
		from := filepath.Join(source, part)
		info, err := os.Stat(from)
		if os.IsNotExist(err) {
			continue
		} else if err != nil {
			return err
		}
		to := s.path(filepath.Join("code/modules", name, part))
		if info.IsDir() {
			err = os.CopyFS(to, os.DirFS(from))
		} else {
			var text []byte
			if text, err = os.ReadFile(from); err == nil {
				err = s.Write(filepath.Join("code/modules", name, part), string(text))
			}
		}
		if err != nil {
			return fmt.Errorf("copy the module %s: %w", name, err)
		}
	}
	return nil
}
