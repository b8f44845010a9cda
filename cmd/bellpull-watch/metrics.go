package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/bellpull/bellpull/cmd/internal/config"
	"github.com/bellpull/bellpull/schemas"
)

// metrics are the watcher's figures for Prometheus. They are told by the node's
// statuses alone.
type metrics struct {
	log      hclog.Logger
	textfile string
	registry *prometheus.Registry
	began    time.Time

	state    *prometheus.GaugeVec
	wanted   *prometheus.GaugeVec
	applied  *prometheus.GaugeVec
	pending  *prometheus.GaugeVec
	runs     *prometheus.CounterVec
	ended    prometheus.Gauge
	duration prometheus.Gauge
	proven   prometheus.Gauge

	mu     sync.Mutex
	scopes map[schemas.Scope]schemas.StatusScope // of the last status
	told   bool                                  // a status has been taken before
	last   time.Time                             // start of the last run
}

// states are those that a node can be in.
var states = []schemas.NodeState{
	schemas.NodeUnknown, schemas.NodeConverged, schemas.NodeWaiting, schemas.NodeQueued, schemas.NodeRunning, schemas.NodeLocked,
	schemas.NodeDisabled, schemas.NodeFailed,
}

// outcomes are those of [schemas.StatusRun].
var outcomes = []string{"changed", "unchanged", "failed", "locked", "disabled", "timed out"}

// newMetrics returns nil when none are asked for.
func newMetrics(cfg config.Metrics, version string, log hclog.Logger) *metrics {
	if cfg.Listen == "" && cfg.Textfile == "" {
		return nil
	}
	gauge := func(name, help string) prometheus.Gauge {
		return prometheus.NewGauge(prometheus.GaugeOpts{Namespace: "bellpull", Subsystem: "watch", Name: name, Help: help})
	}
	gauges := func(name, help, label string) *prometheus.GaugeVec {
		return prometheus.NewGaugeVec(prometheus.GaugeOpts{Namespace: "bellpull", Subsystem: "watch", Name: name, Help: help}, []string{label})
	}
	m := &metrics{
		log: log, textfile: cfg.Textfile, registry: prometheus.NewRegistry(), began: time.Now(),
		state:   gauges("state", "1 for what the node is doing about its desired state, 0 for the others.", "state"),
		wanted:  gauges("wanted_revision", "Revision of a scope that was read last.", "scope"),
		applied: gauges("applied_revision", "Newest revision of a scope that is proven to be applied.", "scope"),
		pending: gauges("pending_entries", "Entries of a scope that owe a run.", "scope"),
		runs: prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: "bellpull", Subsystem: "watch", Name: "runs_total", Help: "Runs that ended, somebody else's included if they left a report.",
		}, []string{"outcome"}),
		ended:    gauge("last_run_timestamp_seconds", "When the last run began."),
		duration: gauge("last_run_duration_seconds", "How long the last run took."),
		proven:   gauge("last_run_applied", "1 if the last run proved all that it was for."),
	}
	build := prometheus.NewGauge(prometheus.GaugeOpts{
		Namespace: "bellpull", Name: "build_info", Help: "1, labelled with the version.", ConstLabels: prometheus.Labels{"version": version},
	})
	build.Set(1)
	m.registry.MustRegister(build, m.state, m.wanted, m.applied, m.pending, m.runs)
	for _, outcome := range outcomes { // a series that begins with 1 shows no increase
		m.runs.WithLabelValues(outcome)
	}
	return m
}

// take takes a node's status over into the figures.
func (m *metrics) take(s schemas.Status) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, state := range states {
		value := 0.0
		if state == s.State {
			value = 1
		}
		m.state.WithLabelValues(string(state)).Set(value)
	}
	for scope := range m.scopes { // not all anew: who asks in between would see none
		if _, still := s.Scopes[scope]; !still {
			for _, g := range []*prometheus.GaugeVec{m.wanted, m.applied, m.pending} {
				g.DeleteLabelValues(string(scope))
			}
		}
	}
	m.scopes = s.Scopes
	for scope, p := range s.Scopes {
		m.wanted.WithLabelValues(string(scope)).Set(float64(p.Wanted))
		m.applied.WithLabelValues(string(scope)).Set(float64(p.Applied))
		m.pending.WithLabelValues(string(scope)).Set(float64(len(p.Pending) + p.More))
	}
	if s.Run != nil && !s.Run.Started.Equal(m.last) {
		m.ran(*s.Run)
	}
	m.told = true
	if m.textfile != "" {
		if err := prometheus.WriteToTextfile(m.textfile, m.registry); err != nil {
			m.log.Warn("metrics cannot be written", "error", err)
		}
	}
}

// ran takes a run over that has not been seen before. An earlier watcher's, which
// the first status may tell of, is no run of this one's count.
func (m *metrics) ran(run schemas.StatusRun) {
	if m.last.IsZero() { // 0 would be a run in 1970 that failed
		m.registry.MustRegister(m.ended, m.duration, m.proven)
	}
	length := time.Duration(run.Seconds * float64(time.Second))
	if m.told || run.Started.Add(length).After(m.began) {
		m.runs.WithLabelValues(run.Outcome).Inc()
	}
	m.last = run.Started
	m.ended.Set(float64(run.Started.UnixMilli()) / 1000)
	m.duration.Set(run.Seconds)
	m.proven.Set(0)
	if run.Applied {
		m.proven.Set(1)
	}
}

// serve answers GET /metrics on the address until ctx ends. A port that is taken is
// an error at once.
func (m *metrics) serve(ctx context.Context, address string) (stop func(), err error) {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("watch.metrics.listen: %w", err)
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{}))
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second, BaseContext: func(net.Listener) context.Context { return ctx }}
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			m.log.Error("metrics are not served any more", "error", err)
		}
	}()
	m.log.Info("serving metrics", "address", listener.Addr().String())
	return func() { _ = server.Close(); <-done }, nil
}
