package puppet

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
)

// Blocked says why no run may start now. The zero Blocked means that one may.
type Blocked struct {
	Disabled bool   // the agent is disabled
	Message  string // what `puppet agent --disable MESSAGE` was told
	PID      int    // the agent of another run that is under way; 0 = none
}

// Free reports whether a run may start.
func (b Blocked) Free() bool { return !b.Disabled && b.PID == 0 }

// String gives the reason in a few words.
func (b Blocked) String() string {
	switch {
	case b.Disabled && b.Message != "":
		return "agent is disabled: " + b.Message
	case b.Disabled:
		return "agent is disabled"
	case b.PID != 0:
		return fmt.Sprintf("run lock is held by pid %d", b.PID)
	}
	return "free"
}

// readBlocked looks at Puppet's lock files and never touches them: Puppet
// clears a stale lock itself. An empty path is not looked at.
func readBlocked(paths Paths) Blocked {
	if paths.DisabledLock != "" {
		body, err := os.ReadFile(paths.DisabledLock)
		if err == nil || !errors.Is(err, os.ErrNotExist) {
			var lock struct {
				Message string `json:"disabled_message"`
			}
			// A lock without readable text disables all the same.
			_ = json.Unmarshal(body, &lock)
			return Blocked{Disabled: true, Message: lock.Message}
		}
	}
	if paths.Lock != "" {
		body, err := os.ReadFile(paths.Lock)
		if err != nil {
			return Blocked{}
		}
		pid, err := strconv.Atoi(strings.TrimSpace(string(body)))
		if err == nil && (Process{PID: pid}).Alive() && isPuppet(pid) {
			return Blocked{PID: pid}
		}
	}
	return Blocked{}
}
