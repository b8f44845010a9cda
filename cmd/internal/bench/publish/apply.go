package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/bellpull/bellpull/cmd/internal/bench/bar"
)

// apply: a directory of 10,000 data files.
func apply(dir string, o options) error {
	srv, err := startServer(dir)
	if err != nil {
		return err
	}
	defer srv.stop()
	data := filepath.Join(dir, "data", "node")
	if err := os.MkdirAll(data, 0o755); err != nil {
		return err
	}
	for i := range o.scopes {
		var b strings.Builder
		for n := range 10 {
			fmt.Fprintf(&b, "profile::app::setting%d: {port: %d, hosts: [db%d.example.com, 192.0.2.%d], note: \"of node %d\"}\n", n, 8000+n, i, n, i)
		}
		if err := os.WriteFile(filepath.Join(data, fmt.Sprintf("n%05d.example.com.yaml", i)), []byte(b.String()), 0o600); err != nil {
			return err
		}
	}
	once := func() (time.Duration, error) {
		cmd := exec.Command(filepath.Join(dir, "bellpull"), "apply", filepath.Dir(data), "--commit", "bench")
		cmd.Env = append(os.Environ(), "BELLPULL_CONFIG=/dev/null", "BELLPULL_NATS_SERVERS=["+srv.url+"]")
		began := time.Now()
		out, err := cmd.CombinedOutput()
		if err != nil {
			err = fmt.Errorf("bellpull apply: %w\n%.2000s", err, out)
		}
		return time.Since(began), err
	}
	first, err := once()
	if err != nil {
		return err
	}
	bar.Print(fmt.Sprintf("apply of %d scopes with 10 entries", o.scopes), first.Seconds(), 10, " s")
	again, err := once()
	if err != nil {
		return err
	}
	bar.Print("the same again, without a change", again.Seconds(), 3, " s")
	return nil
}
