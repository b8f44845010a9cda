package service_test

import (
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/bellpull/bellpull/cmd/internal/service"
)

// manager is systemd's end of the notify socket.
func manager(t *testing.T, name string) func() string {
	t.Helper()
	socket, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: name, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { socket.Close() })
	t.Setenv("NOTIFY_SOCKET", name)
	return func() string {
		buf := make([]byte, 4096)
		if err := socket.SetReadDeadline(time.Now().Add(10 * time.Second)); err != nil {
			t.Fatal(err)
		}
		n, err := socket.Read(buf)
		if err != nil {
			t.Fatalf("nothing was told: %v", err)
		}
		return string(buf[:n])
	}
}

func TestServiceManager(t *testing.T) {
	for name, address := range map[string]string{"file": filepath.Join(t.TempDir(), "notify"), "abstract": "@bellpull-test-" + filepath.Base(t.TempDir())} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("WATCHDOG_USEC", "40000000")
			next := manager(t, address)
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

