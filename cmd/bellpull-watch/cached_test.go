package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/bellpull/bellpull/cmd/internal/tools"
)

// FACT-06: Facter is told to keep the fact for an hour. A run that was given the
// old state is not believed to have applied the new one, and the log names the
// setting; without the setting the next run is.
func TestFactKeptByFacter(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("NOT TESTED: only root may lay a facter.conf of its own over /etc")
	}
	tools.Need(t, "unshare", "mount", "cp")
	s := newSite(t)
	s.start("hiera.log", filepath.Join(s.dir, "bellpull-hiera"), "sync")
	s.until("first sync", func() bool { return s.read("hiera/synced.json") != "" })

	// A mount namespace of the watcher's own: a copy of /etc with the setting, and a
	// place for what Facter keeps. The vendor's packages and Debian's differ in both.
	s.mkdir("etc")
	s.write("facter.conf", `facts : { ttls : [ { "bellpull" : 1 hour } ] }`)
	const script = `cd "$0" && cp -a /etc/. etc && mkdir -p etc/facter etc/puppetlabs/facter &&
cp facter.conf etc/facter && cp facter.conf etc/puppetlabs/facter && mount --bind etc /etc && mount -t tmpfs tmpfs /var/cache &&
{ [ ! -d /opt/puppetlabs/facter ] || mount -t tmpfs tmpfs /opt/puppetlabs/facter; } && exec "$@"`
	stop := s.start("watch.log", "unshare", "--mount", "sh", "-c", script, s.dir, "bellpull-watch", "--log-level", "debug")
	s.put(`{"my::text":{"value":"first"}}`)
	s.until("first change", func() bool { return s.applied().Revision == 2 })
	s.put(`{"my::text":{"value":"second"}}`)
	s.until("a run that proves nothing", func() bool {
		return regexp.MustCompile(`not proven: .*facter\.conf`).MatchString(s.read("watch.log"))
	})
	if got := s.read("from-fact"); got != "first" {
		t.Fatalf("Facter keeps nothing: the file holds %q", got)
	}
	if got := s.applied().Revision; got != 2 {
		t.Errorf("revision %d is booked, the run saw 2", got)
	}
	stop()
	if t.Failed() {
		t.Log(s.read("watch.log"))
	}

	// Without the setting, and without waiting for the next try.
	if out, err := exec.Command("bellpull-watch", "--once", "--config", filepath.Join(s.dir, "bellpull.yaml")).CombinedOutput(); err != nil {
		t.Errorf("--once: %v\n%s", err, out)
	}
	if got := s.read("from-fact"); got != "second" || s.applied().Revision != 3 {
		t.Errorf("the file holds %q, revision %d is booked, want second, 3", got, s.applied().Revision)
	}
}
