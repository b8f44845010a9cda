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

	state    *prometheus.GaugeVec
	wanted   *prometheus.GaugeVec
	applied  *prometheus.GaugeVec
	pending  *prometheus.GaugeVec
	runs     *prometheus.CounterVec
	ended    prometheus.Gauge
	duration prometheus.Gauge
	proven   prometheus.Gauge

	mu   sync.Mutex
	last *schemas.StatusRun
}

// states are those that a node can be in.
var states = []schemas.NodeState{
	schemas.NodeUnknown, schemas.NodeConverged, schemas.NodeWaiting, schemas.NodeQueued, schemas.NodeRunning, schemas.NodeLocked,
	schemas.NodeDisabled, schemas.NodeFailed,
}

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
		log: log, textfile: cfg.Textfile, registry: prometheus.NewRegistry(),
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
	m.registry.MustRegister(build, m.state, m.wanted, m.applied, m.pending, m.runs, m.ended, m.duration, m.proven)
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
	for _, g := range []*prometheus.GaugeVec{m.wanted, m.applied, m.pending} {
		g.Reset() // a scope may have left the hierarchy
	}
	for scope, p := range s.Scopes {
		m.wanted.WithLabelValues(string(scope)).Set(float64(p.Wanted))
		m.applied.WithLabelValues(string(scope)).Set(float64(p.Applied))
		m.pending.WithLabelValues(string(scope)).Set(float64(len(p.Pending) + p.More))
	}
	if run := s.Run; run != nil && (m.last == nil || !run.Started.Equal(m.last.Started)) {
		if m.last != nil || time.Since(run.Started) < time.Minute { // else it is an earlier watcher's
			m.runs.WithLabelValues(run.Outcome).Inc()
		}
		m.last = run
		m.ended.Set(float64(run.Started.UnixMilli()) / 1000)
		m.duration.Set(run.Seconds)
		m.proven.Set(map[bool]float64{true: 1}[run.Applied])
	}
	if m.textfile != "" {
		if err := prometheus.WriteToTextfile(m.textfile, m.registry); err != nil {
			m.log.Warn("metrics cannot be written", "error", err)
		}
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
