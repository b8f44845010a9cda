package puppet

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// versionTimeout is generous: Ruby's start takes seconds on a busy node.
const versionTimeout = 30 * time.Second

// Version asks a program of Puppet's, such as puppet or facter, for its version.
// A program that cannot be found matches [exec.ErrNotFound].
func Version(ctx context.Context, program string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, versionTimeout)
	defer cancel()
	path, err := exec.LookPath(program)
	for _, dir := range filepath.SplitList(searchPath()) {
		if err == nil {
			break
		}
		path, err = exec.LookPath(filepath.Join(dir, program))
	}
	if err != nil {
		return "", fmt.Errorf("find %s: %w", program, exec.ErrNotFound)
	}
	cmd := exec.CommandContext(ctx, path, "--version")
	cmd.Env = environment()
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("ask %s --version: %w", path, err)
	}
	return strings.TrimSpace(string(out)), nil
}
