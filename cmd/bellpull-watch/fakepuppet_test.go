package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/bellpull/bellpull/cmd/internal/config"
	"github.com/bellpull/bellpull/cmd/internal/natskv"
	"github.com/bellpull/bellpull/cmd/internal/statedir"
	"github.com/bellpull/bellpull/factsource"
)

// fakePuppet is: fakepuppet DIR --job-id ID [--tags …] [--noop]. It plays puppet
// agent: holds the lock agent.lock, lets the fact read and leave its record,
// waits for the file go if there is a file slow, writes report.yaml and ends with
// the next of the exit codes in the file codes, where the last one repeats. Files
// are in DIR; each run adds a line with its arguments to the file runs.
func fakePuppet() {
	dir, args := os.Args[1], os.Args[2:]
	path := func(name string) string { return filepath.Join(dir, name) }
	check := func(err error) {
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(99)
		}
	}
	runs, err := os.OpenFile(path("runs"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	check(err)
	_, err = fmt.Fprintln(runs, strings.Join(args, " "))
	check(err)
	text, err := os.ReadFile(path("runs"))
	check(err)
	number := strings.Count(string(text), "\n")

	check(os.WriteFile(path("agent.lock"), []byte(strconv.Itoa(os.Getpid())), 0o600))
	began := time.Now()
	check(fact())
	if _, err := os.Stat(path("slow")); err == nil {
		check(os.WriteFile(path("started"), []byte("yes"), 0o600))
		for {
			if _, err := os.Stat(path("go")); err == nil {
				break
			}
			time.Sleep(10 * time.Millisecond)
		}
	}
	code := 2
	if codes, err := os.ReadFile(path("codes")); err == nil {
		fields := strings.Fields(string(codes))
		code, err = strconv.Atoi(fields[min(number, len(fields))-1])
		check(err)
	}
	status := map[int]string{0: "unchanged", 2: "changed"}[code]
	if status == "" {
		status = "failed"
	}
	report := fmt.Sprintf(`--- !ruby/object:Puppet::Transaction::Report
time: '%s'
job_id: '%s'
status: %s
transaction_completed: true
noop: false
resource_statuses:
  File[/etc/x]:
    tags: [file, class]
    failed: %v
    failed_to_restart: false
    skipped: false
cached_catalog_status: not_used
`, began.UTC().Format(time.RFC3339Nano), os.Getenv("BELLPULL_RUN"), status, status == "failed")
	check(os.WriteFile(path("report.yaml"), []byte(report), 0o600))
	check(os.Remove(path("agent.lock")))
	os.Exit(code)
}

// fact does what bellpull-fact does in a run.
func fact() error {
	cfg, err := config.Load("")
	if err != nil {
		return err
	}
	scopes, err := cfg.Scopes()
	if err != nil {
		return err
	}
	dir, err := statedir.Open(cfg.State)
	if err != nil {
		return err
	}
	digester, err := statedir.Digester(dir)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	bucket, err := natskv.Dial(ctx, natskv.Config{Servers: cfg.NATS.Servers})
	if err != nil {
		return err
	}
	defer bucket.Close()
	return factsource.New(factsource.Config{
		Store: bucket, Scopes: scopes, State: []string{"*"}, Dir: dir, Digester: digester,
		Run: os.Getenv("BELLPULL_RUN"), Wanted: os.Getenv("BELLPULL_WANTED"), Lock: cfg.Puppet.Lock,
	}).Collect(ctx).Record()
}
