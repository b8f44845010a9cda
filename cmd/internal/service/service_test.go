package service_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/hashicorp/go-hclog"

	"github.com/bellpull/bellpull/cmd/internal/service"
	"github.com/bellpull/bellpull/cmd/internal/servicetest"
)

func TestServiceManager(t *testing.T) {
	for name, address := range map[string]string{"file": filepath.Join(t.TempDir(), "notify"), "abstract": "@bellpull-test-" + filepath.Base(t.TempDir())} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("WATCHDOG_USEC", "40000000")
			next := servicetest.Manager(t, address)
			s := service.New(hclog.NewNullLogger())
			s.Ready()
			if got := next(); got != "READY=1" {
				t.Errorf("told %q, want READY=1", got)
			}
			s.Alive()
			if got := next(); got != "WATCHDOG=1" {
				t.Errorf("told %q, want WATCHDOG=1", got)
			}
			s.Alive() // too soon to be told again
			s.Status("disabled: maintenance\nSTOPPING=1")
			if got, want := next(), "STATUS=disabled: maintenance STOPPING=1"; got != want {
				t.Errorf("told %q, want %q: one message", got, want)
			}
			s.Stopping()
			if got := next(); got != "STOPPING=1" {
				t.Errorf("told %q, want STOPPING=1", got)
			}
		})
	}
}

// Without a service manager nobody is told, and nothing is wrong.
func TestNoServiceManager(t *testing.T) {
	t.Setenv("NOTIFY_SOCKET", "")
	var log strings.Builder
	s := service.New(hclog.New(&hclog.LoggerOptions{Output: &log}))
	s.Ready()
	s.Alive()
	if log.Len() > 0 {
		t.Errorf("log: %s", log.String())
	}
}
