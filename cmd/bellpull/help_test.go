package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/bellpull/bellpull/cmd/internal/cli"
	"github.com/bellpull/bellpull/cmd/internal/tools"
)

// Every command tells what it does and shows how, and every flag what it is for.
func TestHelp(t *testing.T) {
	n := 0
	var walk func(cmd *cobra.Command)
	walk = func(cmd *cobra.Command) {
		if cmd.Name() == "help" || cmd.Name() == "completion" {
			return
		}
		n++
		if cmd.Short == "" || cmd.Long == "" || cmd.HasParent() && cmd.Example == "" {
			t.Errorf("%s: Short, Long and Example are wanted", cmd.CommandPath())
		}
		for line := range strings.Lines(cmd.Long) {
			if len(line) > 88 {
				t.Errorf("%s: a line of Long has %d characters", cmd.CommandPath(), len(line))
			}
		}
		cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
			if f.Usage == "" {
				t.Errorf("%s --%s: says nothing", cmd.CommandPath(), f.Name)
			}
		})
		for _, sub := range cmd.Commands() {
			walk(sub)
		}
	}
	walk((&app{}).command())
	if n < 20 {
		t.Errorf("%d commands were looked at", n)
	}
}

func TestManualPages(t *testing.T) {
	t.Setenv("SOURCE_DATE_EPOCH", "1764547200")
	texts := map[string]string{}
	for range 2 {
		dir := filepath.Join(t.TempDir(), "man1")
		if err := run(t.Context(), cli.Streams{}, []string{"man", dir}); err != nil {
			t.Fatal(err)
		}
		pages, err := filepath.Glob(dir + "/*.1")
		if err != nil || len(pages) < 18 {
			t.Fatalf("%d pages, %v", len(pages), err)
		}
		for _, page := range pages {
			text, err := os.ReadFile(page)
			if err != nil {
				t.Fatal(err)
			}
			name := filepath.Base(page)
			if before, twice := texts[name]; twice && before != string(text) {
				t.Errorf("%s differs from one time to the next", name)
			}
			texts[name] = string(text)
		}
	}
	if page := texts["bellpull-rollback.1"]; !strings.Contains(page, "--to") || !strings.Contains(page, "EXAMPLE") {
		t.Errorf("the page of rollback: %s", page)
	}
}

func TestColours(t *testing.T) {
	got := string(colour([]byte("ACTION  ENTRY\n+       a\n-       b\n~       c\nnode    x\nCOMMON  y\n")))
	want := "\x1b[1mACTION  ENTRY\x1b[0m\n\x1b[32m+       a\x1b[0m\n\x1b[31m-       b\x1b[0m\n\x1b[33m~       c\x1b[0m\nnode    x\nCOMMON  y\n"
	if got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// A terminal has colours unless it is asked for none; a pipe never has.
func TestColoursOnATerminal(t *testing.T) {
	tools.Need(t, "script")
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.Symlink(self, filepath.Join(dir, "bellpull")); err != nil {
		t.Fatal(err)
	}
	for environment, coloured := range map[string]bool{"TERM=xterm": true, "NO_COLOR=1": false, "TERM=dumb": false} {
		cmd := exec.Command("script", "-qec", "bellpull kinds", "/dev/null")
		cmd.Env = []string{"PATH=" + dir + ":" + os.Getenv("PATH"), "BELLPULL_CONFIG_YAML=bucket: desired", "TERM=xterm", environment}
		out, err := cmd.CombinedOutput()
		if err != nil || !strings.Contains(string(out), "firewall_rule") {
			t.Fatalf("%s: %v %s", environment, err, out)
		}
		if got := strings.Contains(string(out), "\x1b["); got != coloured {
			t.Errorf("%s: colours %v, want %v: %q", environment, got, coloured, out)
		}
	}
}
