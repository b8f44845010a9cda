package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// daemon starts bellpull-hiera sync and waits for its first full sync.
func (p *place) daemon(t testing.TB) *exec.Cmd {
	t.Helper()
	cmd := exec.Command("bellpull-hiera", "sync")
	cmd.Env = append(os.Environ(), p.env()...)
	cmd.Stderr = t.Output()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	p.until(t, "heartbeat.json", `"time"`)
	return cmd
}

func (p *place) until(t testing.TB, name, text string) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		got, _ := os.ReadFile(filepath.Join(p.hiera, name)) // it may come yet
		if strings.Contains(string(got), text) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s is %q after 20s, want it to hold %q", name, got, text)
		}
	}
}

// Whenever a signal comes, no half file stays and the next start goes on from there.
func TestSignalsLeaveNoHalfFile(t *testing.T) {
	p := newPlace(t, filepath.Join(t.TempDir(), "hiera"))
	long := strings.Repeat("x", 200_000)
	for round := range 12 {
		signal := []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL, syscall.SIGINT}[round%3]
		cmd := p.daemon(t)
		for i := range 4 {
			p.set(t, fmt.Sprintf("node/n%d", i), fmt.Sprintf(`{"a":{"value":"%d %s"}}`, round, long))
		}
		p.set(t, fmt.Sprintf("group/g%d", round), `{}`)     // its list changes, too
		time.Sleep(time.Duration(round) * time.Millisecond) // somewhere in the writing: any moment will do
		if err := cmd.Process.Signal(signal); err != nil {
			t.Fatal(err)
		}
		err := cmd.Wait()
		if signal != syscall.SIGKILL && err != nil {
			t.Errorf("got %v after %v, want exit code 0", err, signal)
		}
		list, err := os.ReadDir(p.hiera)
		if err != nil {
			t.Fatal(err)
		}
		for _, item := range list {
			switch {
			case item.IsDir(): // .tmp, cleared by the next start
			case strings.HasPrefix(item.Name(), "node="):
				text, err := os.ReadFile(filepath.Join(p.hiera, item.Name()))
				if lines := strings.Split(string(text), "\n"); err != nil || len(lines) != 3 || lines[2] != "" || len(lines[1]) < len(long) {
					t.Errorf("after %v %s is %d bytes (%v)", signal, item.Name(), len(text), err)
				}
			case strings.HasPrefix(item.Name(), "group="):
			case item.Name() != "synced.json" && item.Name() != "heartbeat.json":
				t.Errorf("after %v there is a file %s", signal, item.Name())
			}
		}
		for _, wrong := range inconsistent(t, p.hiera) {
			t.Errorf("after %v: %s", signal, wrong)
		}
		if left, err := os.ReadDir(filepath.Join(p.hiera, ".tmp")); signal != syscall.SIGKILL && (err != nil || len(left) > 0) {
			t.Errorf("after %v temporary files %v are left (%v)", signal, left, err)
		}
	}
	p.sync(t)
	p.until(t, "node=2Fn3.json", `"11 xxx`)
	for _, wrong := range inconsistent(t, p.hiera) {
		t.Error(wrong)
	}
}
