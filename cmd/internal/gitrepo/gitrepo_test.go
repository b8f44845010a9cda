package gitrepo_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/bellpull/bellpull/cmd/internal/gitrepo"
	"github.com/bellpull/bellpull/cmd/internal/tools"
)

func TestCommit(t *testing.T) {
	tools.Need(t, "git")
	t.Setenv("GIT_CONFIG_NOSYSTEM", "1")
	t.Setenv("GIT_CONFIG_GLOBAL", os.DevNull)
	repo := t.TempDir()
	data := filepath.Join(repo, "data")
	if err := os.Mkdir(data, 0o755); err != nil {
		t.Fatal(err)
	}
	git := func(args ...string) {
		t.Helper()
		cmd := exec.Command("git", append([]string{"-c", "user.name=x", "-c", "user.email=x@example.com"}, args...)...)
		cmd.Dir = repo
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v: %s", args, err, out)
		}
	}
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(repo, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	commit := func() string {
		t.Helper()
		got, err := gitrepo.Commit(t.Context(), data)
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	write("data/common.yaml", "a: 1")
	if got := commit(); got != "" {
		t.Errorf("without a repository: %q, want none", got)
	}
	git("init", "-q")
	if got := commit(); got != "" {
		t.Errorf("without a commit: %q, want none", got)
	}
	git("add", ".")
	git("commit", "-q", "-m", "x")
	head := commit()
	if len(head) != 40 {
		t.Errorf("commit %q, want its full id", head)
	}
	write("README", "x")
	if got := commit(); got != head {
		t.Errorf("with a change elsewhere: %q, want %q", got, head)
	}
	write("data/common.yaml", "a: 2")
	if got := commit(); got != head+"-dirty" {
		t.Errorf("with a change: %q, want %q", got, head+"-dirty")
	}
	t.Setenv("GIT_TEST_ASSUME_DIFFERENT_OWNER", "1")
	if got, err := gitrepo.Commit(t.Context(), data); err == nil {
		t.Errorf("a repository that git does not trust: %q, want an error", got)
	}
	t.Setenv("PATH", t.TempDir())
	if got := commit(); got != "" {
		t.Errorf("without git: %q, want none", got)
	}
}
