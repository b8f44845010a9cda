package acceptance_test

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/bellpull/bellpull/schemas"
)

// TestPuppetServer starts one estate, since a Puppet Server takes minutes to
// start, and tells its stories one after the other. A story that leaves the sync
// stopped is followed by one that starts it.
func TestPuppetServer(t *testing.T) {
	e := newEstate(t)
	web, db := e.node("web1.example.com", "web"), e.node("db1.example.com", "db")
	for _, story := range []struct {
		name string
		tell func(*testing.T, *estate, *node, *node)
	}{
		{"never synced", neverSynced},
		{"event to file", eventToFile},
		{"change during a compile", changeDuringCompile},
		{"server behind its node", serverBehind},
		{"sync stopped", syncStopped},
		{"damaged data files", damaged},
		{"parallel compiles", parallelCompiles},
	} {
		t.Run(story.name, func(t *testing.T) {
			e.t = t
			story.tell(t, e, web, db)
		})
	}
}

// neverSynced: HIERA-02. A store that is unknown fails the compile and says so; the
// YAML level below never stands in for it.
func neverSynced(t *testing.T, e *estate, web, _ *node) {
	output, code := web.run("never")
	want := regexp.MustCompile(`Error: .*\[bellpull\] scope node/web1\.example\.com is unknown: there is neither .*never-synced/node=2Fweb1\.example\.com\.json nor .*synced\.json, so bellpull-hiera sync has not finished a first sync`)
	if code != 1 || !want.MatchString(output) {
		t.Errorf("got exit code %d and\n%s\nwant 1 and a match of %s", code, output, want)
	}
	if got := e.read(web.file("text")); got != "" {
		t.Errorf("the run wrote %q", got)
	}
}

// eventToFile: an event, the watcher, a run, a catalog and a file, on nodes of two
// groups, whose fact and Hiera agree.
func eventToFile(t *testing.T, e *estate, web, db *node) {
	for n, group := range map[*node]schemas.Scope{web: "group/web", db: "group/db"} {
		revision := e.put(group, "app::text", "for "+string(group))
		e.sync()
		defer n.watch()()
		n.applied(group, revision)
		n.says("text", "for "+string(group))
		n.says("fact", "for "+string(group))
		n.says("late", "lower")
	}
	runs := db.logged("run ended")
	web.applied("group/web", e.put("group/web", "app::text", "changed"))
	web.says("text", "changed")
	web.says("fact", "changed")
	if got := e.read(db.file("text")); got != "for group/db" || db.logged("run ended") != runs {
		t.Errorf("the other group's node says %q, after %d runs and not %d", got, db.logged("run ended"), runs)
	}
	// An entry of the node itself beats its group's, until it is gone.
	own := e.put("node/web1.example.com", "app::text", "its own")
	web.applied("node/web1.example.com", own)
	web.says("text", "its own")
	e.bellpull("rm", "node/web1.example.com", "app::text")
	web.applied("node/web1.example.com", own+1)
	web.says("text", "changed")
}

// changeDuringCompile: what comes after a compile has begun is in the next run. The
// held compile keeps to the data that it began with, and is booked for no more.
func changeDuringCompile(t *testing.T, e *estate, web, _ *node) {
	e.sync()
	hold, held := "hold/hold-"+web.Name, "hold/held-"+web.Name
	defer web.watch()()
	ended := web.logged("run ended")
	e.write(hold, "")
	first := e.put("group/web", "app::text", "first")
	e.until("the compile is held", func() bool { _, err := os.Stat(e.path(held)); return err == nil })
	second := e.put("group/web", "app::text", "second")
	third := e.put("group/web", "app::late", "second")
	e.synced("group/web", third)
	if err := os.Remove(e.path(hold)); err != nil {
		t.Fatal(err)
	}
	web.says("text", "first")
	web.says("late", "lower")
	web.applied("group/web", first)
	if web.booked("group/web", second) || web.booked("group/web", third) {
		t.Error("the held compile is booked for what came after it")
	}
	web.applied("group/web", third)
	web.says("text", "second")
	web.says("late", "second")
	if got := web.logged("run ended") - ended; got != 2 {
		t.Errorf("got %d runs, want 2", got)
	}
}

// serverBehind: a catalog of older data than the node wanted is not booked as
// applied, and one more run follows.
func serverBehind(t *testing.T, e *estate, web, _ *node) {
	e.sync()
	defer web.watch()()
	e.unsync()
	ended := web.logged("run ended")
	revision := e.put("group/web", "app::text", "unseen by the server")
	e.until("the watcher finds the server behind", func() bool { return web.logged("server behind", fmt.Sprintf("needs=%d", revision)) > 0 })
	if web.booked("group/web", revision) {
		t.Error("it is booked as applied")
	}
	if got := e.read(web.file("text")); got != "second" {
		t.Errorf("the file says %q", got)
	}
	web.says("fact", "unseen by the server")
	e.sync()
	e.synced("group/web", revision)
	web.applied("group/web", revision)
	web.says("text", "unseen by the server")
	if got := web.logged("run ended", "exit=") - ended; got < 2 {
		t.Errorf("got %d runs, want one more than the first", got)
	}
}

// syncStopped: the last good data stay, and the log tells their age; a level that
// says on_stale: fail fails.
func syncStopped(t *testing.T, e *estate, web, _ *node) {
	e.sync()
	e.unsync()
	e.put("group/web", "app::text", "newer")
	output, code := web.run("aged")
	if code != 0 && code != 2 {
		t.Errorf("got exit code %d\n%s", code, output)
	}
	if got := e.read(web.file("text")); got != "unseen by the server" {
		t.Errorf("the file says %q", got)
	}
	warning := regexp.MustCompile(`WARN .*\[bellpull\] the data of scope node/web1\.example\.com are \d+ s old, more than max_age \(1 s\): is bellpull-hiera sync running, and does it reach NATS\? Going on with the last good data`)
	if !warning.MatchString(e.server.Log()) {
		t.Errorf("the server's log does not match %s", warning)
	}
	output, code = web.run("strict")
	if code != 1 || !strings.Contains(output, "[bellpull] the data of scope node/web1.example.com are ") {
		t.Errorf("on_stale: fail: got exit code %d\n%s", code, output)
	}
	output, _ = web.run("production")
	if strings.Contains(output, "Error") {
		t.Errorf("within max_age: got\n%s", output)
	}
}
