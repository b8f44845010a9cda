package acceptance_test

import (
	"os"
	"strings"
	"testing"

	"github.com/bellpull/bellpull/schemas"
)

// damaged: whatever becomes of a data file under a running server, a compile has the
// right value or names scope and file; it never has the lower level's.
func damaged(t *testing.T, e *estate, web, _ *node) {
	e.sync()
	e.synced("group/web", e.put("group/web", "app::text", "whole"))
	e.unsync()
	client, err := e.server.Client(web.Agent)
	if err != nil {
		t.Fatal(err)
	}
	file := e.path("hiera/" + schemas.Scope("group/web").FileName())
	good, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	text := func() string {
		catalog, _, err := client.Catalog(t.Context(), "production", nil)
		if err != nil {
			return err.Error()
		}
		return catalog.Parameter("File", web.Dir+"/text", "content").(string)
	}
	restore := func() {
		if err := os.RemoveAll(file); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, good, 0o644); err != nil {
			t.Fatal(err)
		}
		if got := text(); got != "whole" {
			t.Errorf("mended: got %s", got)
		}
	}
	for _, test := range []struct {
		name   string
		damage func() error
		want   string // in the error; "" = the value
	}{
		{"removed", func() error { return os.Remove(file) }, "is missing, though the scope has a document"},
		{"emptied", func() error { return os.Truncate(file, 0) }, "cannot use"},
		{"truncated", func() error { return os.Truncate(file, int64(len(good)/2)) }, "cannot use"},
		{"one byte changed", func() error {
			return os.WriteFile(file, []byte(strings.Replace(string(good), "whole", "whale", 1)), 0o644)
		}, "its checksum is wrong"},
		{"another format", func() error {
			return os.WriteFile(file, []byte(strings.Replace(string(good), `"bellpull":1`, `"bellpull":2`, 1)), 0o644)
		}, "it is not of format 1"},
		// Puppet does not read again what it has read: its cache goes by inode, time and size.
		{"unreadable, but read before", func() error { return os.Chmod(file, 0) }, ""},
		{"unreadable", func() error {
			if err := os.WriteFile(file, []byte("other"), 0o644); err != nil {
				return err
			}
			return os.Chmod(file, 0)
		}, "Permission denied"},
		{"a directory", func() error {
			if err := os.Remove(file); err != nil {
				return err
			}
			return os.Mkdir(file, 0o755)
		}, "cannot use"},
		{"a link to nothing", func() error {
			if err := os.Remove(file); err != nil {
				return err
			}
			return os.Symlink(file+".nowhere", file)
		}, "is missing, though the scope has a document"},
		{"a link to another scope's", func() error {
			if err := os.Remove(file); err != nil {
				return err
			}
			return os.Symlink("group=2Fdb.json", file)
		}, "holds scope group/db"},
	} {
		if err := test.damage(); err != nil {
			t.Fatal(err)
		}
		got := text()
		if test.want == "" {
			if got != "whole" {
				t.Errorf("%s: got %s", test.name, got)
			}
			restore()
			continue
		}
		if !strings.Contains(got, "[bellpull] scope group/web: ") || !strings.Contains(got, file) || !strings.Contains(got, test.want) {
			t.Errorf("%s: got %s\nwant the scope, the file and %q", test.name, got, test.want)
		}
		restore()
	}
	// The sync mends it at its start.
	if err := os.Truncate(file, 5); err != nil {
		t.Fatal(err)
	}
	e.sync()
	if got := text(); got != "whole" {
		t.Errorf("after the sync's start: got %s", got)
	}
}
