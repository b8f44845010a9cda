package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/bellpull/bellpull/cmd/internal/bench/bar"
)

// settle is how long the watcher has until it counts as idle: its first run, of
// /bin/true, is over by then.
const settle = 10 * time.Second

// watcher measures the resident size of an idle bellpull-watch.
func watcher(dir, configFile string) {
	const text = "resident size of bellpull-watch, idle"
	if out, err := compile(dir, "bellpull-watch", "./cmd/bellpull-watch"); err != nil {
		bar.Unmeasured(text, fmt.Errorf("%w: %s", err, strings.TrimSpace(string(out))))
		return
	}
	cmd := exec.Command(filepath.Join(dir, "bellpull-watch"))
	cmd.Env = append(os.Environ(), "BELLPULL_CONFIG="+configFile)
	log, err := os.Create(filepath.Join(dir, "watch.log"))
	if err != nil {
		bar.Unmeasured(text, err)
		return
	}
	defer log.Close()
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		bar.Unmeasured(text, err)
		return
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	select {
	case err := <-ended:
		said, _ := os.ReadFile(log.Name())
		bar.Unmeasured(text, fmt.Errorf("it ended (%v): %s", err, strings.TrimSpace(string(said))))
		return
	case <-time.After(settle):
	}
	defer func() {
		cmd.Process.Signal(syscall.SIGTERM)
		select {
		case <-ended:
		case <-time.After(settle):
			cmd.Process.Kill()
			<-ended
		}
	}()
	kib, err := bar.Resident(cmd.Process.Pid)
	if err != nil {
		bar.Unmeasured(text, err)
		return
	}
	bar.Print(text, float64(kib)/1024, 20, " MiB")
}
