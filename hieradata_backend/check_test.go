package hieradata_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	hieradata "github.com/bellpull/bellpull/hieradata_backend"
	"github.com/bellpull/bellpull/schemas"
)

// Whatever becomes of a file, it is as it should be within an hour, or at once when
// that is asked for.
func TestDamageIsMended(t *testing.T) {
	for _, test := range []struct {
		name, file string
		damage     func(path string) error
	}{
		{"removed", "common.json", os.Remove},
		{"emptied", "common.json", func(path string) error { return os.Truncate(path, 0) }},
		{"truncated", "common.json", func(path string) error { return os.Truncate(path, 150) }},
		{"mode", "common.json", func(path string) error { return os.Chmod(path, 0o600) }},
		{"another's", "common.json", func(path string) error { return copyFile(path, "group=2Fweb.json") }},
		{"directory", "common.json", func(path string) error {
			if err := os.Remove(path); err != nil {
				return err
			}
			return os.MkdirAll(filepath.Join(path, "full"), 0o700)
		}},
		{"link", "common.json", func(path string) error {
			if err := os.Rename(path, path+".elsewhere"); err != nil {
				return err
			}
			return os.Symlink(path+".elsewhere", path)
		}},
		{"older revision", "common.json", func(path string) error { return copyFile(path, "../older") }},
		{"list removed", "scopes/92.json", os.Remove},
		{"list emptied", "scopes/92.json", func(path string) error { return os.Truncate(path, 0) }},
		{"list of others", "scopes/92.json", func(path string) error { return copyFile(path, "93.json") }},
		{"synced.json removed", "synced.json", os.Remove},
		{"synced.json damaged", "synced.json", func(path string) error { return os.WriteFile(path, []byte("{"), 0o640) }},
		{"a file too many", "group=2Fgone.json", func(path string) error { return copyFile(path, "../gone") }},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, dir := newStore(), filepath.Join(t.TempDir(), "hiera")
				s.put("common", entries(`"a":{"value":1}`))
				s.put("group/web", entries(`"a":{"value":2}`))
				s.put("group/gone", entries(`"a":{"value":3}`))
				once(t, hieradata.Config{Store: s, Dir: dir})
				for from, to := range map[string]string{"common.json": "older", "group=2Fgone.json": "gone"} {
					if err := copyFile(filepath.Join(dir, "..", to), filepath.Join("hiera", from)); err != nil {
						t.Fatal(err)
					}
				}
				s.put("common", entries(`"a":{"value":4}`))
				s.put("group/gone", "")

				again := make(chan struct{})
				run(t, hieradata.Config{Store: s, Dir: dir, Again: again})
				synctest.Wait()
				before := contents(t, dir)
				path := filepath.Join(dir, test.file)
				hurt := func() {
					if err := test.damage(path); err != nil {
						t.Fatal(err)
					}
				}
				whole := func(when string) {
					t.Helper()
					after := contents(t, dir)
					delete(after, "common.json.elsewhere")
					for _, name := range []string{"heartbeat.json"} {
						delete(before, name)
						delete(after, name)
					}
					if fmt.Sprint(after) != fmt.Sprint(before) || !slices.Equal(synced(t, dir).Scopes, []string{"common", "group/web"}) {
						t.Errorf("%s: got\n%v\nwant\n%v", when, after, before)
					}
					info, err := os.Lstat(filepath.Join(dir, "common.json"))
					if err != nil || info.Mode() != 0o640 {
						t.Errorf("%s: common.json: got %v, %v", when, info.Mode(), err)
					}
				}
				hurt()
				again <- struct{}{}
				synctest.Wait()
				whole("asked for")
				hurt()
				pass(time.Hour + time.Minute)
				whole("after an hour")
			})
		})
	}
}

func copyFile(to, from string) error {
	text, err := os.ReadFile(filepath.Join(filepath.Dir(to), from))
	if err != nil {
		return err
	}
	if err := os.Remove(to); err != nil && !os.IsNotExist(err) {
		return err
	}
	return os.WriteFile(to, text, 0o640)
}

// A damaged file whose document cannot be read is no reason to say that the files
// are current.
func TestDamageStopsTheHeartbeat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, dir := newStore(), t.TempDir()
		s.put("common", entries(`"a":{"value":1}`))
		again := make(chan struct{})
		run(t, hieradata.Config{Store: s, Dir: dir, Again: again})
		pass(time.Minute)
		if err := os.Remove(filepath.Join(dir, "common.json")); err != nil {
			t.Fatal(err)
		}
		s.change(func() { s.away = true })
		again <- struct{}{}
		pass(time.Second)
		before := beat(t, dir).Time
		pass(5 * time.Minute)
		if got := beat(t, dir).Time; !got.Equal(before) {
			t.Errorf("the heartbeat went on from %v to %v", before, got)
		}
		s.change(func() { s.away = false })
		pass(time.Minute)
		if got := beat(t, dir).Time; !exists(filepath.Join(dir, "common.json")) || !got.After(before) {
			t.Errorf("the store is back: file there %v, heartbeat %v", exists(filepath.Join(dir, "common.json")), got)
		}
	})
}

// Writing one list anew costs the readers one list, not all.
func TestOnlyTheListOfANewScopeIsWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, dir := newStore(), t.TempDir()
		run(t, hieradata.Config{Store: s, Dir: dir})
		synctest.Wait()
		files := func() map[string]os.FileInfo {
			out := map[string]os.FileInfo{}
			list, err := os.ReadDir(filepath.Join(dir, "scopes"))
			if err != nil {
				t.Fatal(err)
			}
			for _, item := range list {
				info, err := item.Info()
				if err != nil {
					t.Fatal(err)
				}
				out[item.Name()] = info
			}
			return out
		}
		before := files()
		if len(before) != 256 {
			t.Fatalf("got %d lists, want 256 after a full load", len(before))
		}
		s.put("common", entries(``))
		pass(time.Second)
		var written []string
		for name, info := range files() {
			if !os.SameFile(before[name], info) {
				written = append(written, name)
			}
		}
		if !slices.Equal(written, []string{"92.json"}) {
			t.Errorf("got the lists %v written, want that of common alone", written)
		}
	})
}

// At every moment, a scope without a file is either listed, or not covered, or has
// no document.
func TestPrefixesAreNarrowedFirstAndWidenedLast(t *testing.T) {
	dir := t.TempDir()
	s := newStore()
	for _, scope := range []schemas.Scope{"common", "group/web", "node/a"} {
		s.put(scope, entries(``))
	}
	for _, prefixes := range [][]string{{""}, {"group"}, {"group", "node"}, {"node"}, {"common", "group/web"}, {""}} {
		stop := make(chan struct{})
		watched := make(chan string, 1)
		go func() {
			var wrong string
			for {
				select {
				case <-stop:
					watched <- wrong
					return
				default:
					wrong += lost(dir, "common", "group/web", "node/a")
				}
			}
		}()
		once(t, hieradata.Config{Store: s, Dir: dir, Prefixes: prefixes})
		close(stop)
		if wrong := <-watched; wrong != "" {
			t.Errorf("on the way to %q: %.400s", prefixes, wrong)
		}
	}
}

// lost tells which scopes a reader would take for empty.
func lost(dir string, scopes ...schemas.Scope) (wrong string) {
	for _, scope := range scopes {
		// In the order of the reader: file, what is covered, list.
		if _, err := os.ReadFile(filepath.Join(dir, scope.FileName())); err == nil {
			continue
		}
		text, err := os.ReadFile(filepath.Join(dir, "synced.json"))
		if err != nil || !coveredBy(string(text), scope) {
			continue
		}
		n := map[schemas.Scope]string{"common": "92", "group/web": "fb", "node/a": "0c"}[scope]
		list, err := os.ReadFile(filepath.Join(dir, "scopes", n+".json"))
		if err == nil && !strings.Contains(string(list), `"`+string(scope)+`"`) {
			wrong += fmt.Sprintf("%s is taken for empty; ", scope)
		}
	}
	return wrong
}

func coveredBy(synced string, scope schemas.Scope) bool {
	if strings.Contains(synced, `""`) {
		return true
	}
	first, _, _ := strings.Cut(string(scope), "/")
	return strings.Contains(synced, `"`+first+`"`) || strings.Contains(synced, `"`+string(scope)+`"`)
}
