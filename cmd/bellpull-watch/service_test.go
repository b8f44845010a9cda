package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bellpull/bellpull/cmd/internal/tools"
)

// The unit files are what systemd understands, and keep what is promised: the
// service is never given up, and ending it does not end the run.
func TestUnitFiles(t *testing.T) {
	tools.Need(t, "systemd-analyze")
	units, err := filepath.Glob("../bellpull*/*.service")
	if err != nil || len(units) < 2 {
		t.Fatalf("%d unit files, %v", len(units), err)
	}
	for _, unit := range units {
		text, err := os.ReadFile(unit)
		if err != nil {
			t.Fatal(err)
		}
		// systemd looks whether the program is there.
		local := filepath.Join(t.TempDir(), filepath.Base(unit))
		if err := os.WriteFile(local, []byte(strings.ReplaceAll(string(text), "ExecStart=/usr/bin/bellpull-", "ExecStart=/bin/true bellpull-")), 0o600); err != nil {
			t.Fatal(err)
		}
		if out, err := exec.Command("systemd-analyze", "verify", local).CombinedOutput(); err != nil || strings.Contains(string(out), filepath.Base(unit)) {
			t.Errorf("%s: %v\n%s", unit, err, out)
		}
		// MOD-02: a permanent fault, such as a wrong configuration, is no busy loop.
		for _, want := range []string{"StartLimitIntervalSec=0", "Restart=always", "RestartSec=10", "Type=notify"} {
			if !strings.Contains(string(text), "\n"+want+"\n") {
				t.Errorf("%s lacks %s", unit, want)
			}
		}
	}
	watch, err := os.ReadFile("bellpull-watch.service")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"KillMode=process", "WatchdogSec=5min"} {
		if !strings.Contains(string(watch), "\n"+want+"\n") {
			t.Errorf("bellpull-watch.service lacks %s", want)
		}
	}
}
