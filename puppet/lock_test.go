package puppet_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/bellpull/bellpull/puppet"
)

func TestAgentBlocked(t *testing.T) {
	dead := exec.Command("true")
	if err := dead.Run(); err != nil {
		t.Fatal(err)
	}
	s := newStage(t)
	agent := s.agent("exit 0")
	holder := s.process("puppet")
	tests := []struct {
		name, lock, disabled string
		want                 puppet.Blocked
	}{
		{name: "free"},
		{name: "run under way", lock: strconv.Itoa(holder), want: puppet.Blocked{PID: holder}},
		{name: "stale lock", lock: strconv.Itoa(dead.Process.Pid)},
		{name: "pid is another program's now", lock: strconv.Itoa(s.process("other"))},
		{name: "lock without pid", lock: "x"},
		{name: "disabled", disabled: `{"disabled_message":"maintenance window CHG-0001"}`, want: puppet.Blocked{Disabled: true, Message: "maintenance window CHG-0001"}},
		{name: "disabled with odd text", disabled: "x", want: puppet.Blocked{Disabled: true}},
		{name: "disabled goes before locked", disabled: "{}", lock: strconv.Itoa(holder), want: puppet.Blocked{Disabled: true}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for file, body := range map[string]string{s.paths.Lock: tt.lock, s.paths.DisabledLock: tt.disabled} {
				if err := os.Remove(file); err != nil && !errors.Is(err, os.ErrNotExist) {
					t.Fatal(err)
				}
				if body != "" {
					s.write(filepath.Base(file), body)
				}
			}
			if got := agent.Blocked(); got != tt.want {
				t.Errorf("%+v, want %+v", got, tt.want)
			}
			if tt.disabled != "" && s.read("disabled.lock") != tt.disabled {
				t.Error("the lock was touched")
			}
		})
	}
}
