// Package gitrepo asks git which commit a directory's files are of.
package gitrepo

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"
)

const timeout = 20 * time.Second

// Commit returns the commit that is checked out in the repository that dir is in, with "-dirty" behind it if anything below dir
// differs from it; "" if dir is in no repository, the repository has no commit, or git is not installed.
func Commit(ctx context.Context, dir string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	if _, err := exec.LookPath("git"); err != nil {
		return "", nil
	}
	if _, err := git(ctx, dir, "rev-parse", "--git-dir"); err != nil {
		if strings.Contains(err.Error(), "not a git repository") {
			return "", nil
		}
		return "", err
	}
	head, err := git(ctx, dir, "rev-parse", "--verify", "--quiet", "HEAD")
	if err != nil || head == "" {
		return "", nil // no commit yet
	}
	changes, err := git(ctx, dir, "status", "--porcelain", "--", ".")
	if err != nil {
		return "", err
	}
	if changes != "" {
		head += "-dirty"
	}
	return head, nil
}

// git runs git in dir. It asks nothing, writes nothing and speaks English.
func git(ctx context.Context, dir string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "git", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "LC_ALL=C", "GIT_OPTIONAL_LOCKS=0", "GIT_TERMINAL_PROMPT=0")
	cmd.WaitDelay = time.Second
	out, err := cmd.Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		line, _, _ := strings.Cut(strings.TrimSpace(string(exit.Stderr)), "\n")
		return "", fmt.Errorf("git %s: %w: %s", args[0], err, line)
	}
	if err != nil {
		return "", fmt.Errorf("git %s: %w", args[0], err)
	}
	return strings.TrimSpace(string(out)), nil
}
