package main

import (
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/bellpull/bellpull/cmd/internal/config"
	"github.com/bellpull/bellpull/schemas"
)

func TestMetrics(t *testing.T) {
	file := filepath.Join(t.TempDir(), "bellpull.prom")
	var log strings.Builder
	m := newMetrics(config.Metrics{Listen: "127.0.0.1:0", Textfile: file}, "1.2.3", hclog.New(&hclog.LoggerOptions{Output: &log}))
	stop, err := m.serve(t.Context(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	now := time.Now().UTC().Truncate(time.Millisecond)
	m.take(schemas.Status{State: schemas.NodeFailed, Scopes: map[schemas.Scope]schemas.StatusScope{
		"group/web": {Wanted: 7, Applied: 5, Pending: []string{"a", "b"}, More: 3}, "gone": {},
	}, Run: &schemas.StatusRun{Outcome: "failed", Started: now, Seconds: 4.5}})
	status := schemas.Status{State: schemas.NodeConverged, Scopes: map[schemas.Scope]schemas.StatusScope{"group/web": {Wanted: 7, Applied: 7}},
		Run: &schemas.StatusRun{Outcome: "changed", Applied: true, Started: now.Add(time.Minute), Seconds: 3}}
	m.take(status)
	m.take(status) // the same run is not another

	address := regexp.MustCompile(`127\.0\.0\.1:[1-9][0-9]*`).FindString(log.String())
	answer, err := http.Get("http://" + address + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	served, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	written, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm()&0o044 != 0o044 {
		t.Errorf("%v, %v: node_exporter cannot read it", info.Mode(), err)
	}
	for _, text := range []string{string(served), string(written)} {
		for _, want := range []string{
			`bellpull_build_info{version="1.2.3"} 1`,
			`bellpull_watch_state{state="converged"} 1`, `bellpull_watch_state{state="failed"} 0`,
			`bellpull_watch_wanted_revision{scope="group/web"} 7`, `bellpull_watch_applied_revision{scope="group/web"} 7`,
			`bellpull_watch_pending_entries{scope="group/web"} 0`,
			`bellpull_watch_runs_total{outcome="failed"} 1`, `bellpull_watch_runs_total{outcome="timed out"} 0`, `bellpull_watch_runs_total{outcome="changed"} 1`,
			`bellpull_watch_last_run_duration_seconds 3`, `bellpull_watch_last_run_applied 1`,
		} {
			if !strings.Contains(text, "\n"+want+"\n") {
				t.Errorf("no line %q in:\n%s", want, text)
			}
		}
		if strings.Contains(text, "gone") {
			t.Errorf("a scope that left the hierarchy is still there:\n%s", text)
		}
	}
	if _, err := newMetrics(config.Metrics{Listen: address}, "", hclog.NewNullLogger()).serve(t.Context(), address); err == nil || !strings.Contains(err.Error(), "watch.metrics.listen") {
		t.Errorf("a port that is taken: %v", err)
	}
	if newMetrics(config.Metrics{}, "", hclog.NewNullLogger()) != nil {
		t.Error("metrics that nobody asked for")
	}
}

// Every run that this watcher sees the end of counts once, however long it took;
// what an earlier watcher has counted does not. Before the first run nothing is
// said of a last one.
func TestMetricsCountRuns(t *testing.T) {
	now := time.Now()
	run := func(outcome string, began time.Time, took time.Duration) *schemas.StatusRun {
		return &schemas.StatusRun{Outcome: outcome, Started: began, Seconds: took.Seconds()}
	}
	early := run("changed", now.Add(-time.Hour), time.Minute)
	for _, tt := range []struct {
		name string
		runs []*schemas.StatusRun // of one status each
		want string               // of the counter
		last bool
	}{
		{"never ran", []*schemas.StatusRun{nil}, "", false},
		{"an earlier watcher's", []*schemas.StatusRun{early, early}, "", true},
		{"a long first run", []*schemas.StatusRun{nil, run("failed", now.Add(-time.Hour), 55*time.Minute)}, `bellpull_watch_runs_total{outcome="failed"} 1`, true},
		{"taken over", []*schemas.StatusRun{early, run("changed", now.Add(-20*time.Minute), 10*time.Minute)}, `bellpull_watch_runs_total{outcome="changed"} 1`, true},
		{"told first when it has ended", []*schemas.StatusRun{run("changed", now.Add(-time.Minute), time.Hour)}, `bellpull_watch_runs_total{outcome="changed"} 1`, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "bellpull.prom")
			m := newMetrics(config.Metrics{Textfile: file}, "1.2.3", hclog.NewNullLogger())
			for _, r := range tt.runs {
				m.take(schemas.Status{State: schemas.NodeConverged, Run: r})
			}
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			got := strings.Join(regexp.MustCompile(`(?m)^bellpull_watch_runs_total{.*} [1-9]$`).FindAllString(string(text), -1), " ")
			if got != tt.want {
				t.Errorf("counted %q, want %q", got, tt.want)
			}
			if last := strings.Contains(string(text), "\nbellpull_watch_last_run_timestamp_seconds "); last != tt.last {
				t.Errorf("a last run is told of: %v, want %v", last, tt.last)
			}
		})
	}
}
