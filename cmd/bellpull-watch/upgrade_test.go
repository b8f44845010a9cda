package main

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
)

// MOD-01: the catalog of a real run changes the watcher's configuration, restarts
// its service and goes on: the run is not cut off, the watcher that is there then
// books it, and nothing runs again.
func TestRunRestartsItsWatcher(t *testing.T) {
	s := newSite(t)
	s.write("code/environments/production/manifests/site.pp", fmt.Sprintf(sitePP+`
file { '%[1]s/watcher.conf': content => $facts.dig('bellpull', 'state', 'my::text') }
~> exec { 'restart':
  command     => "/bin/sh -c 'echo > %[1]s/restart; until [ -e %[1]s/restarted ]; do sleep 0.1; done'",
  refreshonly => true,
}
-> file { '%[1]s/marker': ensure => file }
`, s.dir))
	s.start("hiera.log", filepath.Join(s.dir, "bellpull-hiera"), "sync")
	s.until("first sync", func() bool { return s.read("hiera/synced.json") != "" })
	stop := s.start("watch.log", "bellpull-watch", "--log-level", "debug")
	s.put(`{"my::text":{"value":"new"}}`)

	// What systemd does at `systemctl restart`, for which the run waits.
	s.until("restart", func() bool { return exists(filepath.Join(s.dir, "restart")) })
	stop()
	s.start("watch.log", "bellpull-watch", "--log-level", "debug")
	s.until("taking over", func() bool { return strings.Contains(s.read("watch.log"), "a run of an earlier watcher is taken over") })
	if exists(filepath.Join(s.dir, "marker")) {
		t.Fatal("the run did not wait for the restart")
	}
	s.write("restarted", "")
	s.until("booking", func() bool { return s.applied().Revision == 2 })
	if !exists(filepath.Join(s.dir, "marker")) {
		t.Error("the run did not get to its marker")
	}
	s.until("equal data", func() bool {
		_, after, _ := strings.Cut(s.read("watch.log"), " applied: ")
		return strings.Contains(after, `no run: why="equal data"`)
	})
	if n := strings.Count(s.read("watch.log"), " run: run="); n != 1 {
		t.Errorf("%d runs, want one; log:\n%s", n, s.read("watch.log"))
	}
}
