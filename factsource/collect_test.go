package factsource_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bellpull/bellpull/factsource"
	"github.com/bellpull/bellpull/schemas"
)

func TestHealthyFact(t *testing.T) {
	s := newSite(t)
	s.store.set(t, group, 812, `{"fw::rules[b]": {"value": {"port": 2}}, "name": {"value": "group"}}`)
	s.store.set(t, common, 4, `{"fw::rules": {"value": {"a": 1, "b": 0}}, "name": {"value": "common"}, "big": {"value": 123456789012345678901234567890}}`)
	const line = `{"bellpull": {"bucket": "b1", "revision": 812, ` +
		`"scopes": {"node/web1.example.com": 0, "group/web": 812, "common": 4}, ` +
		`"state": {"big": 123456789012345678901234567890, "fw::rules": {"a": 1, "b": {"port": 2}}, "name": "group"}, "source": "live"}}` + "\n"
	if got := s.text(); got != line {
		t.Errorf("fact =\n%swant\n%s", got, line)
	}
	s.now = s.now.Add(time.Hour)
	if got := s.text(); got != line {
		t.Errorf("an hour later the same state gives\n%swant\n%s", got, line)
	}
}

// FACT-04: nothing known, nothing there and everything removed are three things.
func TestUnknownIsNotEmpty(t *testing.T) {
	unknown := newSite(t)
	unknown.store.err = errDown
	fact, warnings := unknown.run()
	want(t, fact, map[string]string{
		"source": `"none"`, "state": "", "bucket": "", "scopes": "",
		"reason": `"` + errDown.Error() + `; never read: node/web1.example.com, group/web, common"`,
	})
	if warnings != errDown.Error() {
		t.Errorf("warnings = %q, want %q", warnings, errDown)
	}

	empty := newSite(t)
	fact, warnings = empty.run()
	want(t, fact, map[string]string{
		"source": `"live"`, "state": "{}", "bucket": `"b1"`, "reason": "", "revision": "0",
		"scopes": `{"common":0,"group/web":0,"node/web1.example.com":0}`,
	})
	if warnings != "" {
		t.Errorf("warnings = %q, want none", warnings)
	}

	removed := newSite(t)
	removed.store.scopes[group] = schemas.ScopeReading{Revision: 9, Deleted: true}
	removed.store.set(t, common, 10, `{}`)
	fact, warnings = removed.run()
	want(t, fact, map[string]string{
		"source": `"live"`, "state": "{}", "reason": "", "revision": "10",
		"scopes": `{"common":10,"group/web":9,"node/web1.example.com":0}`,
	})
	if warnings != "" {
		t.Errorf("warnings = %q, want none", warnings)
	}
}

func TestBucketWithoutIDIsUnknown(t *testing.T) {
	s := newSite(t)
	s.store.bucket = ""
	fact, _ := s.run()
	want(t, fact, map[string]string{"source": `"none"`, "state": ""})
	if reason := fact["reason"].(string); !strings.Contains(reason, "bellpull init") {
		t.Errorf("reason = %q, want it to say what to run", reason)
	}
}

func TestOutageShowsLastGood(t *testing.T) {
	s := newSite(t)
	s.store.set(t, common, 4, `{"x": {"value": "kept"}, "ban": {"value": 1, "expires": "2026-12-01T10:30:00Z"}}`)
	s.run()
	s.now = s.now.Add(10 * time.Minute)
	s.run()
	s.store.err = errDown

	s.now = s.now.Add(time.Minute)
	fact, warnings := s.run()
	stale := `{"common":{"as_of":"2026-12-01T10:10:00Z","revision":4},` +
		`"group/web":{"as_of":"2026-12-01T10:10:00Z","revision":0},"node/web1.example.com":{"as_of":"2026-12-01T10:10:00Z","revision":0}}`
	members := map[string]string{
		"source": `"last-good"`, "bucket": `"b1"`, "revision": "4", "state": `{"ban":1,"x":"kept"}`, "stale": stale,
		"reason": `"` + errDown.Error() + `"`, "error": "",
	}
	want(t, fact, members)
	if warnings != errDown.Error() {
		t.Errorf("warnings = %q, want %q", warnings, errDown)
	}
	s.now = s.now.Add(24 * time.Hour)
	members["state"] = `{"x":"kept"}` // what has expired is gone without a server
	fact, _ = s.run()
	want(t, fact, members)

	s.store.err = nil
	fact, warnings = s.run()
	want(t, fact, map[string]string{"source": `"live"`, "stale": "", "reason": ""})
	if warnings != "" {
		t.Errorf("warnings = %q, want none", warnings)
	}
}

// A scope that is new in the hierarchy is unknown during an outage: what lies
// below it in the hierarchy must not stand in for it.
func TestOneUnknownScopeHidesTheState(t *testing.T) {
	s := newSite(t)
	s.store.set(t, common, 4, `{"x": {"value": "common"}}`)
	s.cfg.Scopes = []schemas.Scope{common}
	s.run()
	s.cfg.Scopes = []schemas.Scope{group, common}
	s.store.err = errDown
	fact, _ := s.run()
	want(t, fact, map[string]string{"source": `"none"`, "state": ""})
	if reason := fact["reason"].(string); !strings.HasSuffix(reason, "never read: group/web") {
		t.Errorf("reason = %q, want it to name group/web", reason)
	}
}

func TestForeignBodyIsNamedOnce(t *testing.T) {
	s := newSite(t)
	s.store.set(t, group, 5, `{"g": {"value": 1}}`)
	s.store.set(t, common, 4, `{"x": {"value": "old"}}`)
	s.run()
	_, invalid := schemas.ParseDocument([]byte(`{"bellpull": 1, "entries": {"x": 1}}`))
	s.store.fail(common, 6, invalid)
	s.store.set(t, group, 7, `{"g": {"value": 2}}`)

	fact, warnings := s.run()
	members := map[string]string{
		"source": `"last-good"`, "revision": "7", "state": `{"g":2,"x":"old"}`,
		"stale":  `{"common":{"as_of":"2026-12-01T10:00:00Z","revision":4}}`,
		"reason": `"common: revision 6: document: /entries/x: must be an object; /entries/x/value: is missing"`,
	}
	members["reason"] = fmt.Sprintf("%q", fmt.Sprintf("common: revision 6: %v", invalid))
	want(t, fact, members)
	if !strings.Contains(warnings, "common: revision 6: document: /entries/x") {
		t.Errorf("warnings = %q, want scope, revision and pointer", warnings)
	}
	s.now = s.now.Add(time.Hour)
	fact, warnings = s.run()
	want(t, fact, members)
	if warnings != "" {
		t.Errorf("the same body is named again: %q", warnings)
	}
	s.store.fail(common, 8, invalid)
	if _, warnings = s.run(); !strings.Contains(warnings, "revision 8") {
		t.Errorf("warnings = %q, want the new revision named", warnings)
	}
}

func TestForeignBodyWithoutLastGoodIsUnknown(t *testing.T) {
	s := newSite(t)
	s.store.fail(common, 6, schemas.ErrInvalid)
	fact, warnings := s.run()
	want(t, fact, map[string]string{"source": `"none"`, "state": ""})
	if warnings == "" {
		t.Error("nothing was said about the body")
	}
	if _, warnings = s.run(); warnings != "" {
		t.Errorf("the same body is named again: %q", warnings)
	}
}

func TestLaggingReplicaIsAskedAgain(t *testing.T) {
	s := newSite(t)
	s.store.set(t, common, 4, `{"x": {"value": "new"}}`)
	s.run()
	for name, behind := range map[string]func(){
		"lower revision": func() { s.store.set(t, common, 3, `{"x": {"value": "old"}}`) },
		"no document":    func() { delete(s.store.scopes, common) },
		"no answer":      func() { s.store.fail(common, 0, schemas.ErrUnavailable) },
		"no bucket id":   func() { s.store.bucket = "" },
	} {
		s.store.reads = 0
		s.store.on = func(read int) {
			if behind(); read == 2 {
				s.store.bucket = "b1"
				s.store.set(t, common, 5, `{"x": {"value": "newest"}}`)
			}
		}
		fact, warnings := s.run()
		want(t, fact, map[string]string{"source": `"live"`, "state": `{"x":"newest"}`, "revision": "5"})
		if warnings != "" || s.store.reads != 2 {
			t.Errorf("%s: %d reads, warnings %q, want 2 reads and none", name, s.store.reads, warnings)
		}
	}
}

func TestBucketThatWentBack(t *testing.T) {
	s := newSite(t)
	s.store.set(t, common, 812, `{"x": {"value": "new"}}`)
	s.run()
	s.store.set(t, common, 640, `{"x": {"value": "old"}}`)

	fact, warnings := s.run()
	members := map[string]string{
		"source": `"last-good"`, "state": `{"x":"new"}`, "error": "", "revision": "812",
		"stale": `{"common":{"as_of":"2026-12-01T10:00:00Z","revision":812}}`,
	}
	want(t, fact, members)
	if !strings.Contains(warnings, "went back from 812 to 640") {
		t.Errorf("warnings = %q, want the revisions", warnings)
	}
	if s.store.reads < 3 {
		t.Errorf("%d reads in all, want a lagging replica to be asked again", s.store.reads)
	}

	s.now = s.now.Add(11 * time.Minute)
	s.store.reads = 0
	s.run()
	fact, _ = s.run()
	members["error"] = "\"common: the bucket went back from 812 to 640; if it was restored, run `bellpull init --new-id`\""
	want(t, fact, members)

	s.store.reads = 0
	if s.run(); s.store.reads != 1 {
		t.Errorf("%d reads, want 1: it is no replica that lags", s.store.reads)
	}
	s.store.set(t, common, 813, `{"x": {"value": "newer"}}`)
	fact, _ = s.run()
	want(t, fact, map[string]string{"source": `"live"`, "state": `{"x":"newer"}`, "error": "", "stale": ""})
}

func TestNewBucketWins(t *testing.T) {
	s := newSite(t)
	s.store.set(t, group, 800, `{"g": {"value": "old"}}`)
	s.store.set(t, common, 812, `{"x": {"value": "old"}}`)
	s.run()
	s.store.bucket = "b2"
	s.store.set(t, common, 2, `{"x": {"value": "restored"}}`)
	delete(s.store.scopes, group)

	fact, _ := s.run()
	want(t, fact, map[string]string{
		"source": `"last-good"`, "bucket": `"b2"`, "revision": "2", "state": `{"g":"old","x":"restored"}`,
		"stale": `{"group/web":{"as_of":"2026-12-01T10:00:00Z","revision":800}}`,
	})
	s.now = s.now.Add(9 * time.Second)
	fact, _ = s.run()
	want(t, fact, map[string]string{"source": `"last-good"`, "state": `{"g":"old","x":"restored"}`})

	s.now = s.now.Add(time.Second)
	fact, warnings := s.run()
	want(t, fact, map[string]string{"source": `"live"`, "state": `{"x":"restored"}`, "stale": ""})
	if warnings != "" {
		t.Errorf("warnings = %q, want none", warnings)
	}
}

// Each new id has its own time to make itself believed.
func TestAnotherNewBucketStartsAnew(t *testing.T) {
	s := newSite(t)
	s.store.set(t, common, 812, `{"x": {"value": "old"}}`)
	s.run()
	delete(s.store.scopes, common)
	for _, id := range []string{"b2", "b3"} {
		s.store.bucket = id
		fact, _ := s.run()
		want(t, fact, map[string]string{"source": `"last-good"`, "state": `{"x":"old"}`, "bucket": fmt.Sprintf("%q", id)})
		s.now = s.now.Add(time.Minute)
	}
	fact, _ := s.run()
	want(t, fact, map[string]string{"source": `"live"`, "state": `{}`, "bucket": `"b3"`})
}

// Readings of lagging replicas add up, those of another bucket do not.
func TestReadingsOfSeveralReplicas(t *testing.T) {
	s := newSite(t)
	s.store.set(t, group, 5, `{"g": {"value": "old"}}`)
	s.store.set(t, common, 6, `{"x": {"value": "old"}}`)
	s.run()
	s.store.reads = 0
	s.store.on = func(read int) {
		if read == 1 {
			s.store.set(t, group, 7, `{"g": {"value": "new"}}`)
			s.store.set(t, common, 4, `{"x": {"value": "older"}}`)
		} else {
			s.store.fail(group, 0, schemas.ErrUnavailable)
			s.store.set(t, common, 8, `{"x": {"value": "new"}}`)
		}
	}
	fact, _ := s.run()
	want(t, fact, map[string]string{"source": `"live"`, "state": `{"g":"new","x":"new"}`})

	s.store.reads = 0
	s.store.on = func(read int) {
		s.store.set(t, group, 100, `{"g": {"value": "before the restore"}}`)
		s.store.set(t, common, 1, `{"x": {"value": "older"}}`)
		if read > 1 {
			s.store.bucket = "b2"
			s.store.set(t, group, 1, `{"g": {"value": "restored"}}`)
			s.store.set(t, common, 2, `{"x": {"value": "restored"}}`)
		}
	}
	fact, _ = s.run()
	want(t, fact, map[string]string{"source": `"live"`, "state": `{"g":"restored","x":"restored"}`, "bucket": `"b2"`, "revision": "2"})
}

// A store that ignores its deadline does not hold the fact up.
func TestStoreThatNeverAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t)
		s.cfg.Now = nil
		release := make(chan struct{})
		defer close(release)
		s.store.on = func(int) { <-release }
		ctx, cancel := context.WithTimeout(context.Background(), 1400*time.Millisecond)
		defer cancel()
		start := time.Now()
		c := factsource.New(s.cfg).Collect(ctx)
		if took := time.Since(start); took > 1400*time.Millisecond {
			t.Errorf("Collect took %v of 1.4s", took)
		}
		want(t, decode(t, c.Fact), map[string]string{"source": `"none"`, "state": ""})
	})
}

func TestWithoutDirectory(t *testing.T) {
	s := newSite(t)
	s.cfg.Dir, s.cfg.Run = "", "run1"
	s.store.set(t, common, 4, `{"x": {"value": 1}}`)
	fact, warnings := s.run()
	want(t, fact, map[string]string{"source": `"live"`, "state": `{"x":1}`, "pending": ""})
	if warnings != "" {
		t.Errorf("warnings = %q, want none", warnings)
	}
}

func TestPending(t *testing.T) {
	s := newSite(t)
	s.store.set(t, group, 5, `{"same": {"value": 1}, "changed": {"value": 2}, "secret": {"value": "s", "sensitive": true}}`)
	s.store.set(t, common, 4, `{"new": {"value": 3}, "gone": {"value": 4, "expires": "2026-12-01T09:00:00Z"}}`)
	digest := func(value string, sensitive bool) string {
		return s.cfg.Digester.Entry(schemas.Entry{Value: schemas.Value(value), Sensitive: sensitive})
	}
	applied := schemas.Applied{Bucket: "b1", Scopes: map[schemas.Scope]schemas.AppliedScope{
		group: {Entries: map[string]string{"same": digest("1", false), "changed": digest("1", false), "secret": digest(`"s"`, true)}},
	}}
	s.applied(applied)
	fact, _ := s.run()
	want(t, fact, map[string]string{"pending": `["changed","new"]`})

	s.store.err = errDown // digests of secrets outlive their values
	fact, _ = s.run()
	want(t, fact, map[string]string{"pending": `["changed","new"]`, "hidden": `["secret"]`, "source": `"last-good"`})

	applied.Scopes[group].Entries["changed"] = digest("2", false)
	applied.Scopes[common] = schemas.AppliedScope{Entries: map[string]string{"new": digest("3", false)}}
	s.applied(applied)
	fact, _ = s.run()
	want(t, fact, map[string]string{"pending": `[]`})
}

func (s *site) applied(a schemas.Applied) {
	s.t.Helper()
	body, err := a.Marshal()
	if err != nil {
		s.t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(s.cfg.Dir, "applied.json"), body, 0o600); err != nil {
		s.t.Fatal(err)
	}
}

func TestSecretsAreHiddenAndNotKept(t *testing.T) {
	s := newSite(t)
	s.store.set(t, common, 4, `{"plain": {"value": 1}, "pw": {"value": "hunter2", "sensitive": true}, `+
		`"db[user]": {"value": "app"}, "db[pass]": {"value": "hunter2", "sensitive": true}}`)
	live, _ := s.run()
	s.store.err = errDown
	stale, _ := s.run()
	for _, fact := range []map[string]any{live, stale} {
		want(t, fact, map[string]string{"state": `{"plain":1}`, "hidden": `["db","pw"]`})
		text, err := json.Marshal(fact)
		if err != nil || strings.Contains(string(text), "hunter2") {
			t.Errorf("the fact holds a secret: %s, %v", text, err)
		}
	}
	if strings.Contains(s.snapshot(), "hunter2") {
		t.Errorf("the snapshot holds a secret: %s", s.snapshot())
	}
}

func TestClashIsInvalid(t *testing.T) {
	s := newSite(t)
	s.store.set(t, group, 5, `{"x[a]": {"value": 1}}`)
	s.store.set(t, common, 4, `{"x": {"value": "no hash"}, "y": {"value": 2}}`)
	fact, _ := s.run()
	want(t, fact, map[string]string{
		"state": `{"y":2}`, "source": `"live"`,
		"invalid": `{"x":"common holds a value that is no hash, while group/web holds members of it"}`,
	})
}

func TestStatePatterns(t *testing.T) {
	s := newSite(t)
	s.store.set(t, common, 4, `{"fw::rules": {"value": 1}, "fw::ports/x": {"value": 2}, "app": {"value": 3}, "pw": {"value": 4, "sensitive": true}}`)
	for _, tt := range []struct{ name, state, hidden string }{
		{"*", `{"app":3,"fw::ports/x":2,"fw::rules":1}`, `["pw"]`},
		{"fw::*", `{"fw::ports/x":2,"fw::rules":1}`, ""},
		{"*s*", `{"fw::ports/x":2,"fw::rules":1}`, ""},
		{"app", `{"app":3}`, ""},
		{"fw", `{}`, ""},
		{"*app*pp*", `{}`, ""},
	} {
		s.cfg.State = []string{tt.name}
		fact, _ := s.run()
		t.Log(tt.name)
		want(t, fact, map[string]string{"state": tt.state, "hidden": tt.hidden})
	}
	s.cfg.State = nil
	fact, _ := s.run()
	want(t, fact, map[string]string{"state": "", "hidden": "", "source": `"live"`})
}

// The fact of a run that was started for revision 5 shows at least that, though
// a replica is behind and revision 5 is not in the last good state.
func TestRunShowsWhatItWasStartedFor(t *testing.T) {
	s := newSite(t)
	s.store.set(t, common, 4, `{"x": {"value": "old"}}`)
	s.cfg.Wanted = filepath.Join(s.cfg.Dir, "wanted.json")
	write(t, s.cfg.Wanted, `{"bucket": "b1", "scopes": {"common": {"bucket": "b1", "revision": 5, "entries": {}}}}`, 0o600)
	s.store.on = func(read int) {
		if read == 3 {
			s.store.set(t, common, 5, `{"x": {"value": "new"}}`)
		}
	}
	fact, warnings := s.run()
	want(t, fact, map[string]string{"state": `{"x":"new"}`, "revision": "5", "source": `"live"`})
	if warnings != "" {
		t.Errorf("warnings = %q, want none", warnings)
	}
	write(t, s.cfg.Wanted, `{"scopes": {"common": {"bucket": "other", "revision": 99}}}`, 0o600)
	s.store.reads = 3
	if s.run(); s.store.reads != 4 {
		t.Errorf("%d reads, want 1: the file is about another bucket", s.store.reads-3)
	}
	write(t, s.cfg.Wanted, "\x00", 0o600)
	if fact, _ = s.run(); fact["source"] != "live" {
		t.Errorf("source = %v, want live though the file is damaged", fact["source"])
	}
}
