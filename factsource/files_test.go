package factsource_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/bellpull/bellpull/factsource"
	"github.com/bellpull/bellpull/schemas"
)

func TestDamagedSnapshotIsIgnored(t *testing.T) {
	for name, spoil := range map[string]func(t *testing.T, file string){
		"zeroed":   func(t *testing.T, file string) { write(t, file, string(make([]byte, 500)), 0o600) },
		"empty":    func(t *testing.T, file string) { write(t, file, "", 0o600) },
		"cut":      func(t *testing.T, file string) { write(t, file, `{"bellpull": 1, "scopes": {"common": {"revis`, 0o600) },
		"other":    func(t *testing.T, file string) { write(t, file, strings.Replace(headed("{}"), "1", "2", 1), 0o600) },
		"document": func(t *testing.T, file string) { write(t, file, headed(brokenDocument), 0o600) },
		"one bit": func(t *testing.T, file string) {
			text, err := os.ReadFile(file)
			check(t, err)
			text[bytes.Index(text, []byte("kept"))] ^= 1
			write(t, file, string(text), 0o600)
		},
		"writable":  func(t *testing.T, file string) { check(t, os.Chmod(file, 0o666)) },
		"foreign":   func(t *testing.T, file string) { root(t); check(t, os.Chown(file, 4711, -1)) },
		"directory": func(t *testing.T, file string) { check(t, os.Remove(file)); check(t, os.Mkdir(file, 0o700)) },
		"pipe":      func(t *testing.T, file string) { check(t, os.Remove(file)); check(t, syscall.Mkfifo(file, 0o600)) },
		"link": func(t *testing.T, file string) {
			check(t, os.Rename(file, file+".real"))
			check(t, os.Symlink(file+".real", file))
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t)
			s.store.set(t, common, 812, `{"x": {"value": "kept"}}`)
			s.run()
			file := filepath.Join(s.cfg.Dir, "snapshot.json")
			spoil(t, file)

			s.store.err = errDown
			c := factsource.New(s.cfg).Collect(t.Context())
			want(t, decode(t, c.Fact), map[string]string{"source": `"none"`, "state": ""})
			if len(c.Warnings) != 2 || !strings.Contains(c.Warnings[0]+c.Warnings[1], "last good state") {
				t.Errorf("warnings = %q, want one about the file and one about the outage", c.Warnings)
			}

			s.store.err = nil
			if name == "directory" {
				check(t, os.Remove(file)) // it cannot be replaced by a file
			}
			fact, _ := s.run()
			want(t, fact, map[string]string{"source": `"live"`, "state": `{"x":"kept"}`})
			if fact, warnings := s.run(); warnings != "" {
				t.Errorf("the file is not mended: %q, %v", warnings, fact)
			}
		})
	}
}

// headed puts the right head above a body.
func headed(body string) string {
	return fmt.Sprintf("{\"bellpull\": 1, \"checksum\": \"sha256:%x\"}\n%s", sha256.Sum256([]byte(body)), body)
}

const brokenDocument = `{"scopes": {
	"common": {"bucket": "b1", "revision": 4, "document": {"bellpull": 1, "entries": 7}},
	"group/web": {"bucket": "b1", "revision": 0, "document": {"bellpull": 1, "entries": {}}},
	"node/web1.example.com": {"bucket": "b1", "revision": 0, "document": {"bellpull": 1, "entries": {}}}}}`

func TestStateIsPrivateAndWrittenOnChange(t *testing.T) {
	s := newSite(t)
	s.store.set(t, common, 1, `{"x": {"value": 1}}`)
	s.run()
	file := filepath.Join(s.cfg.Dir, "snapshot.json")
	first := stat(t, file)
	if first.Mode() != 0o600 {
		t.Errorf("mode = %v, want 0600", first.Mode())
	}
	s.now = s.now.Add(time.Hour)
	s.run()
	second := stat(t, file)
	if !os.SameFile(first, second) {
		t.Error("the file was written again although nothing has changed")
	}
	if !second.ModTime().Equal(s.now) {
		t.Errorf("modification time = %v, want that of the last reading, %v", second.ModTime(), s.now)
	}
	s.store.set(t, common, 2, `{"x": {"value": 2}}`)
	s.run()
	if os.SameFile(first, stat(t, file)) || !strings.Contains(s.snapshot(), `"revision":2`) {
		t.Error("the file was not replaced when the state changed")
	}
}

// A process that was killed while it wrote leaves a temporary file: the next
// write removes it, and it is never read.
func TestLeftoversAreSwept(t *testing.T) {
	s := newSite(t)
	old, young := filepath.Join(s.cfg.Dir, ".snapshot.json123"), filepath.Join(s.cfg.Dir, ".snapshot.json456")
	write(t, old, "{", 0o600)
	write(t, young, "{", 0o600)
	hourAgo := time.Now().Add(-time.Hour)
	check(t, os.Chtimes(old, hourAgo, hourAgo))
	s.run()
	if _, err := os.Stat(old); !os.IsNotExist(err) {
		t.Errorf("the old temporary file is still there: %v", err)
	}
	if _, err := os.Stat(young); err != nil {
		t.Errorf("a temporary file that may be in use was removed: %v", err)
	}
}

func TestDamagedAppliedRecordIsIgnored(t *testing.T) {
	s := newSite(t)
	write(t, filepath.Join(s.cfg.Dir, "applied.json"), "\x00\x00", 0o600)
	fact, warnings := s.run()
	want(t, fact, map[string]string{"pending": "", "source": `"live"`})
	if !strings.Contains(warnings, "applied record ignored") {
		t.Errorf("warnings = %q, want the record named", warnings)
	}
}

func TestShownToARunOfTheWatcher(t *testing.T) {
	s := newSite(t)
	s.cfg.Run = "run-1"
	s.store.set(t, common, 4, `{"x": {"value": 1}, "pw": {"value": "s", "sensitive": true}, "old": {"value": 1, "expires": "2026-12-01T09:00:00Z"}}`)
	s.run()
	shown := s.shown("run-1.json")
	digests := s.cfg.Digester.Entries(s.store.scopes[common].Document, s.now)
	if shown.Run != "run-1" || shown.Bucket != "b1" || !shown.Time.Equal(s.now) || len(digests) != 2 {
		t.Errorf("record = %+v, want run-1 in b1 at %v", shown, s.now)
	}
	wantScopes := map[schemas.Scope]schemas.ShownScope{
		common: {Revision: 4, Live: true, Entries: digests},
		group:  {Live: true, Entries: map[string]string{}}, node: {Live: true, Entries: map[string]string{}},
	}
	if got, want := fmt.Sprint(shown.Scopes), fmt.Sprint(wantScopes); got != want {
		t.Errorf("scopes = %s, want %s", got, want)
	}

	s.store.err = errDown // last good state is shown too, but it is not live
	s.run()
	shown = s.shown("run-1.json")
	if got := shown.Scopes[common]; got.Live || got.Entries["pw"] != digests["pw"] {
		t.Errorf("scope = %+v, want it not live, with the same digests", got)
	}
	check(t, os.Remove(filepath.Join(s.cfg.Dir, "snapshot.json")))
	s.run()
	if shown = s.shown("run-1.json"); len(shown.Scopes) != 0 {
		t.Errorf("scopes = %+v, want none: the fact showed nothing", shown.Scopes)
	}
}

func TestNothingIsRecordedUnlessARunAsks(t *testing.T) {
	s := newSite(t)
	lock := filepath.Join(t.TempDir(), "agent_catalog_run.lock")
	s.cfg.Lock = lock
	for name, spoil := range map[string]func(){
		"no lock":        func() {},
		"empty lock":     func() { write(t, lock, "", 0o644) },
		"no pid":         func() { write(t, lock, "-1", 0o644) },
		"somebody's run": func() { write(t, lock, "4194305", 0o644) },
		"odd run id":     func() { s.cfg.Run = "../../etc/cron.d/x" },
	} {
		spoil()
		s.run()
		if files, err := os.ReadDir(filepath.Join(s.cfg.Dir, "shown")); err == nil {
			t.Errorf("%s: recorded %v", name, files)
		}
	}
}

func TestShownToAnAgentRun(t *testing.T) {
	s := newSite(t)
	s.cfg.Lock = filepath.Join(t.TempDir(), "agent_catalog_run.lock")
	for _, pid := range []int{os.Getppid(), grandparent(t)} {
		write(t, s.cfg.Lock, fmt.Sprintf("%d\n", pid), 0o644)
		s.run()
		if shown := s.shown(fmt.Sprintf("pid-%d.json", pid)); shown.PID != pid || shown.Run != "" {
			t.Errorf("record = %+v, want pid %d", shown, pid)
		}
	}
}

func TestNewestRecordsAreKept(t *testing.T) {
	s := newSite(t)
	for i := range 40 {
		s.cfg.Run = fmt.Sprintf("run-%02d", 39-i)
		s.run()
		at := time.Now().Add(time.Duration(i-40) * time.Second)
		check(t, os.Chtimes(filepath.Join(s.cfg.Dir, "shown", s.cfg.Run+".json"), at, at))
	}
	files, err := os.ReadDir(filepath.Join(s.cfg.Dir, "shown"))
	if err != nil || len(files) != 32 || files[0].Name() != "run-00.json" || files[31].Name() != "run-31.json" {
		t.Errorf("%d records, %v: %v, want run-00 to run-31", len(files), err, files)
	}
	if mode := stat(t, filepath.Join(s.cfg.Dir, "shown")).Mode().Perm(); mode != 0o700 {
		t.Errorf("mode of the directory = %v, want 0700", mode)
	}
}

func (s *site) shown(name string) (shown schemas.Shown) {
	s.t.Helper()
	body, err := os.ReadFile(filepath.Join(s.cfg.Dir, "shown", name))
	check(s.t, err)
	check(s.t, json.Unmarshal(body, new(map[string]any)))
	shown, err = schemas.ParseShown(body)
	check(s.t, err)
	return shown
}

func grandparent(t *testing.T) int {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", os.Getppid()))
	if err != nil {
		t.Skipf("SKIP: this system has no /proc: %v", err)
	}
	_, rest, _ := strings.Cut(string(status), "PPid:")
	var pid int
	if _, err := fmt.Sscan(rest, &pid); err != nil {
		t.Fatal(err)
	}
	return pid
}

func root(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("SKIP: only root can give files away")
	}
}

func write(t testing.TB, file, text string, mode os.FileMode) {
	t.Helper()
	check(t, os.WriteFile(file, []byte(text), mode))
}

func stat(t testing.TB, file string) os.FileInfo {
	t.Helper()
	info, err := os.Stat(file)
	check(t, err)
	return info
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
