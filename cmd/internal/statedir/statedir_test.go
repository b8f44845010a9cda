package statedir_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/bellpull/bellpull/cmd/internal/statedir"
	"github.com/bellpull/bellpull/schemas"
)

func TestOpenMakesAPrivateDirectory(t *testing.T) {
	state := filepath.Join(t.TempDir(), "lib", "bellpull")
	for range 2 {
		dir, err := statedir.Open(state)
		if err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(dir)
		if err != nil {
			t.Fatal(err)
		}
		if got := info.Mode().Perm(); got != 0o700 {
			t.Errorf("%s has mode %o, want 700", dir, got)
		}
	}
}

func TestOpenRefusesWhatOthersMayChange(t *testing.T) {
	state := t.TempDir()
	if err := os.Mkdir(statedir.Path(state), 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := statedir.Open(state); !errors.Is(err, schemas.ErrInvalid) || !strings.Contains(err.Error(), "chmod 0700") {
		t.Errorf("a directory open to others: got %v, want ErrInvalid that says what to do", err)
	}
	if os.Geteuid() == 0 {
		if err := errors.Join(os.Chmod(statedir.Path(state), 0o700), os.Chown(statedir.Path(state), 12345, 0)); err != nil {
			t.Fatal(err)
		}
		if _, err := statedir.Open(state); !errors.Is(err, schemas.ErrInvalid) || !strings.Contains(err.Error(), "user 12345") {
			t.Errorf("somebody else's directory: got %v, want ErrInvalid that names the owner", err)
		}
	}
}

func TestDigesterIsOneForAll(t *testing.T) {
	dir, err := statedir.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	entry := schemas.Entry{Value: "1"}
	digests := make([]string, 8)
	var group sync.WaitGroup
	for i := range digests {
		group.Go(func() {
			if digester, err := statedir.Digester(dir); err != nil {
				t.Error(err)
			} else {
				digests[i] = digester.Entry(entry)
			}
		})
	}
	group.Wait()
	for _, digest := range digests {
		if digest != digests[0] {
			t.Errorf("digests differ: %v", digests)
		}
	}
	files, err := filepath.Glob(filepath.Join(dir, ".tmp*"))
	if err != nil || len(files) != 0 {
		t.Errorf("left behind: %v, %v", files, err)
	}

	// A zeroed-out or cut-off key is replaced.
	if err := os.WriteFile(filepath.Join(dir, "digest.key"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	digester, err := statedir.Digester(dir)
	if err != nil || digester.Entry(entry) == digests[0] || digester.Entry(entry) == schemas.NewDigester([32]byte{}).Entry(entry) {
		t.Errorf("after damage: %v; want another random key", err)
	}
}
