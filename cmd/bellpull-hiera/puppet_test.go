package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/bellpull/bellpull/schemas"
)

// HIERA-01, HIERA-06: what Puppet finds is exactly what is stored.
func TestPuppetFindsWhatIsStored(t *testing.T) {
	t.Parallel()
	s := newSite(t, "")
	stored := map[string]string{
		"app::nothing": `null`, "app::flag": `false`, "app::empty": `""`, "app::list": `[]`, "app::map": `{}`, "app::zero": `0`,
		"app::true": `true`, "app::int": `-42`, "app::big": `123456789012345678901234567890`, "app::float": `1.25`,
		"app::text":     `"ä\"\\\n\t🔔"`,
		"app::deep":     `{"a":[{"b":[null,false,0,"",{}]}],"z":{"y":{"x":[1,2]}}}`,
		"app::password": `"p%{w}x%{facts.os.family}y%%z"`,
		"app::url":      `"amqps://u:%{lookup('app::password')}@mq.example.test/v"`,
		"app::keys":     `{"%{facts.os.family}":["%{alias('app::list')}"]}`,
	}
	entries := map[string]any{}
	for key, value := range stored {
		entries[key] = map[string]any{"value": json.RawMessage(value)}
	}
	entries["app::secret"] = map[string]any{"value": json.RawMessage(`{"p":"%{w}"}`), "sensitive": true}
	entries["app::gone"] = map[string]any{"value": 1, "expires": "2001-01-01T00:00:00Z"}
	entries["app::rules[a]"] = map[string]any{"value": "s", "sensitive": true}
	entries["app::rules[b[c]]"] = map[string]any{"value": 2}
	entries["app::later"] = map[string]any{"value": "not yet", "expires": "2999-01-01T00:00:00Z"}
	text, err := json.Marshal(entries)
	if err != nil {
		t.Fatal(err)
	}
	s.set(t, "group/web", string(text))
	s.set(t, "common", `{"app::list":{"value":["shadowed"]},"app::deleted":{"value":"was"}}`)
	s.sync(t)
	s.set(t, "common", `{"app::list":{"value":["shadowed"]}}`)
	s.sync(t)
	fallback := "---\n"
	keys := []string{"app::deleted", "app::never", "app::gone", "app::secret", "app::rules", "app::later", "app::nowhere"}
	for key := range stored {
		keys = append(keys, key)
	}
	for _, key := range keys {
		if key != "app::nowhere" && key != "app::rules" {
			fallback += key + ": fallback\n"
		}
	}
	s.write("code/environments/production/data/common.yaml", fallback)

	want := map[string]string{
		"app::deleted": `"fallback"`, "app::never": `"fallback"`, "app::gone": `"fallback"`, "app::nowhere": "not found",
		"app::secret": `{"Sensitive":{"p":"%{w}"}}`, "app::rules": `{"a":{"Sensitive":"s"},"b[c]":2}`, "app::later": `"not yet"`,
	}
	for key, value := range stored {
		want[key] = value
	}
	got, _ := s.answers(keys...)
	for key, want := range want {
		if got := got[key].text(); got != want {
			t.Errorf("%s: got %s, want %s", key, got, want)
		}
	}

	for key, want := range map[string]string{"app::flag": "false\n", "app::big": "123456789012345678901234567890\n", "app::nothing": "null\n"} {
		stdout, stderr, code := s.lookup("--render-as", "json", key)
		if stdout != want || code != 0 {
			t.Errorf("puppet lookup %s: got %q, exit code %d, want %q\n%s", key, stdout, code, want, stderr)
		}
	}
}

// HIERA-06: interpolation is the operator's choice, per level.
func TestPuppetInterpolatesWhenTold(t *testing.T) {
	t.Parallel()
	s := newSite(t, ", interpolate: true")
	s.set(t, "common", `{"app::password":{"value":"p"},"app::url":{"value":"amqps://u:%{lookup('app::password')}@mq.example.test/v"},
		"app::secret":{"value":"%{lookup('app::password')}","sensitive":true}}`)
	s.sync(t)
	got, _ := s.answers("app::url", "app::secret")
	if got, want := got["app::url"].text(), `"amqps://u:p@mq.example.test/v"`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if got, want := got["app::secret"].text(), `{"Sensitive":"%{lookup('app::password')}"}`; got != want {
		t.Errorf("got %s for a sensitive entry, want %s", got, want)
	}
}

func TestPuppetExplains(t *testing.T) {
	t.Parallel()
	s := newSite(t, "")
	s.set(t, "group/web", `{"app::flag":{"value":false},"app::rules[a]":{"value":1}}`)
	s.sync(t)
	stdout, stderr, code := s.lookup("--explain", "app::flag")
	for _, want := range []string{
		`\[bellpull\] scope group/web: revision 2 of bucket [A-Z0-9]+, \d+ s old`,
		`\[bellpull\] scope node/web1\.example\.com: no document in bucket [A-Z0-9]+, \d+ s old`,
		`\[bellpull\] "group/" has an empty segment, so this level is empty`,
		`\[bellpull\] app::rules has members: it wants lookup_options \{"app::rules": \{merge: hash\}\}`,
		`Found key: "app::flag" value: false`,
	} {
		if !regexp.MustCompile(want).MatchString(stdout) {
			t.Errorf("got the explanation\n%s\nwant it to match %s", stdout, want)
		}
	}
	if code != 0 || stderr != "" {
		t.Errorf("got exit code %d and stderr %q", code, stderr)
	}
}

// HIERA-03: 300 automatic class parameters on three levels cost the server nothing.
func TestPuppetMissesCostTheServerNothing(t *testing.T) {
	t.Parallel()
	s := newSite(t, "")
	s.set(t, "common", `{"other":{"value":1}}`)
	s.sync(t)
	var keys []string
	manifest := ""
	for m := range 30 {
		var params []string
		for p := range 10 {
			params = append(params, fmt.Sprintf("$param%d = 'default'", p))
			keys = append(keys, fmt.Sprintf("mod%02d::config::param%d", m, p))
		}
		s.write(fmt.Sprintf("code/environments/production/modules/mod%02d/manifests/config.pp", m),
			fmt.Sprintf("class mod%02d::config(%s) { notice($param3) }\n", m, strings.Join(params, ", ")))
		manifest += fmt.Sprintf("include mod%02d::config\n", m)
	}
	s.write("site.pp", manifest)
	requests := func() int64 {
		stats, err := s.server.Embedded().Varz(nil)
		if err != nil {
			t.Fatal(err)
		}
		return stats.InMsgs
	}
	defaults := func() int {
		stdout, stderr, code := s.puppet("apply", filepath.Join(s.dir, "site.pp"))
		if code != 0 {
			t.Fatalf("puppet apply: exit code %d\n%s", code, stderr)
		}
		return strings.Count(stdout, ": default\n")
	}
	before := requests()
	if got := defaults(); got != 30 {
		t.Errorf("got %d defaults in the first compile, want all 30", got)
	}
	if got := requests(); got != before {
		t.Errorf("got %d requests to the server in a compile, want none", got-before)
	}

	s.set(t, "group/web", `{"mod07::config::param3":{"value":"new"}}`)
	s.sync(t)
	if got := defaults(); got != 29 {
		t.Errorf("got %d defaults after one of the keys was put, want 29", got)
	}

	_, with := s.answers(keys...)
	s.write("code/environments/production/hiera.yaml", "---\nversion: 5\nhierarchy: [{name: common, data_hash: yaml_data, datadir: data, path: common.yaml}]\n")
	_, without := s.answers(keys...)
	t.Logf("300 lookups take %v of CPU time, and %v without bellpull", with, without)
	if with-without > time.Second {
		t.Errorf("300 lookups take %v of CPU time more with bellpull, want less than 1s", with-without)
	}
}

// Never a lower level's value for one that is merely out of reach.
func TestPuppetFailsRatherThanGuess(t *testing.T) {
	t.Parallel()
	s := newSite(t, "")
	s.write("code/environments/production/data/common.yaml", "app::x: lower\n")
	proof := filepath.Join(s.dir, "proof")
	s.write("site.pp", "file { '"+proof+"': content => sprintf('%s %s', lookup('app::x'), lookup('app::ban', undef, undef, 'gone')) }\n")
	apply := func(t *testing.T) (stderr string, code int) {
		t.Helper()
		_, stderr, code = s.puppet("apply", filepath.Join(s.dir, "site.pp"))
		return stderr, code
	}
	// Without --explain, puppet lookup ends with exit code 1 and says nothing.
	fails := func(t *testing.T, wants ...string) {
		t.Helper()
		stdout, stderr, _ := s.lookup("--explain", "app::x")
		if strings.Contains(stdout, `Found key: "app::x"`) {
			t.Errorf("got an answer:\n%s", stdout)
		}
		for _, want := range wants {
			if !strings.Contains(stdout+stderr, want) {
				t.Errorf("got\n%s%s\nwant it to hold %q", stdout, stderr, want)
			}
		}
	}
	path := func(name string) string { return filepath.Join(s.place.hiera, name) }

	t.Run("never synced", func(t *testing.T) {
		fails(t, "[bellpull] scope node/web1.example.com is unknown", path("synced.json"))
		if stderr, code := apply(t); code != 1 || !strings.Contains(stderr, "[bellpull] scope node/web1.example.com is unknown") {
			t.Errorf("got exit code %d from puppet apply, want 1\n%s", code, stderr)
		}
		if _, err := os.Stat(proof); err == nil {
			t.Error("the catalog was applied")
		}
	})

	expires := time.Now().Add(10 * time.Second)
	s.set(t, "group/web", `{"app::x":{"value":"upper"},"app::ban":{"value":"banned","expires":"`+expires.Format(time.RFC3339Nano)+`"}}`)
	s.sync(t)
	good, err := os.ReadFile(path("group=2Fweb.json"))
	if err != nil || !strings.Contains(string(good), "banned") {
		t.Fatalf("got the data file %q (%v), want both entries", good, err)
	}
	write := func(t *testing.T, name, text string) {
		t.Helper()
		if err := os.WriteFile(path(name), []byte(text), 0o640); err != nil {
			t.Fatal(err)
		}
	}

	t.Run("damaged file", func(t *testing.T) {
		write(t, "group=2Fweb.json", strings.Replace(string(good), "upper", "other", 1))
		fails(t, "[bellpull] scope group/web: cannot use "+path("group=2Fweb.json")+": its checksum is wrong")
	})
	write(t, "group=2Fweb.json", string(good))
	write(t, "heartbeat.json", `{"bellpull":1,"time":"`+time.Now().Add(-time.Hour).Format(time.RFC3339)+`","sequence":1}`)
	t.Run("too old, and that is an error", func(t *testing.T) {
		s.hiera(", max_age: 60, on_stale: fail")
		fails(t, "the data of scope node/web1.example.com are 3", "more than max_age (60 s)")
	})
	// No daemon runs, so nothing but the reader can drop what has expired.
	t.Run("too old, and the last good data are used", func(t *testing.T) {
		s.hiera("")
		time.Sleep(time.Until(expires))
		stderr, code := apply(t)
		got, err := os.ReadFile(proof)
		if code != 0 || string(got) != "upper gone" {
			t.Errorf("got %q (%v), exit code %d, want upper gone\n%s", got, err, code, stderr)
		}
		if got := strings.Count(stderr, "[bellpull]"); got != 1 {
			t.Errorf("got %d warnings in %q, want one for the whole compile", got, stderr)
		}
	})
}

// Class bellpull keeps what the compile used, also in noop runs and runs with tags.
func TestPuppetKeepsWhatItCompiledFrom(t *testing.T) {
	t.Parallel()
	s := newSite(t, "")
	state := filepath.Join(s.dir, "state")
	s.set(t, "group/web", `{"x":{"value":1,"expires":"2999-01-01T00:00:00Z"}}`)
	s.sync(t)
	s.write("code/environments/production/data/common.yaml", "bellpull::state: "+state+"\n")
	s.write("site.pp", "include bellpull\nfile { '"+state+"/other': ensure => file }\n")
	apply := func(flags ...string) int {
		t.Helper()
		_, stderr, code := s.puppet("apply", append(flags, "--detailed-exitcodes", filepath.Join(s.dir, "site.pp"))...)
		if code != 0 && code != 2 {
			t.Fatalf("puppet apply: exit code %d\n%s", code, stderr)
		}
		return code
	}
	compiled := func() schemas.Compiled {
		t.Helper()
		text, err := os.ReadFile(filepath.Join(state, "node/compiled.json"))
		if err != nil {
			t.Fatal(err)
		}
		c, err := schemas.ParseCompiled(text)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	apply("--noop")
	got := compiled()
	if len(got) != 3 || got["group/web"].Revision != 2 || got["group/web"].Until.Year() != 2999 || got["group/web"].Bucket == "" ||
		got["common"] != (schemas.CompiledScope{Bucket: got["group/web"].Bucket}) {
		t.Errorf("got %+v after a noop run", got)
	}
	if _, err := os.Stat(filepath.Join(state, "other")); err == nil {
		t.Error("the noop run was none")
	}
	for name, want := range map[string]os.FileMode{"node": 0o700, "node/compiled.json": 0o600} {
		if info, err := os.Stat(filepath.Join(state, name)); err != nil || info.Mode().Perm() != want {
			t.Errorf("got %v (%v) for %s, want mode %v", info.Mode(), err, name, want)
		}
	}

	s.set(t, "group/web", `{"x":{"value":2}}`)
	s.sync(t)
	apply("--tags", "firewall,bellpull_compiled")
	if got := compiled()["group/web"]; got.Revision != 3 || !got.Until.IsZero() {
		t.Errorf("got %+v after a run with tags, want revision 3 and no expiry", got)
	}
	if code := apply(); code != 2 {
		t.Errorf("got exit code %d from the first whole run, want 2", code)
	}
	if code := apply(); code != 0 {
		t.Errorf("got exit code %d from the second run, want 0: it changes nothing", code)
	}
}
