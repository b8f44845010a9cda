package webhook

import (
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Metrics are the gateway's figures for Prometheus. They outlive a reload.
type Metrics struct {
	registry *prometheus.Registry
	requests *prometheus.CounterVec
	events   *prometheus.CounterVec
	seconds  *prometheus.HistogramVec
}

// outcome is what became of an event.
type outcome int

const (
	written outcome = iota
	unchanged
	superseded
	refused
	failed
	outcomes // how many there are
)

func (o outcome) String() string {
	return [outcomes]string{"written", "unchanged", "superseded", "refused", "failed"}[o]
}

// NewMetrics returns figures that stand at 0. connected tells whether the store
// can be reached.
func NewMetrics(version string, connected func() bool) *Metrics {
	m := &Metrics{
		registry: prometheus.NewRegistry(),
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: "bellpull", Subsystem: "gateway", Name: "requests_total", Help: "Requests, by route (other = none) and status.",
		}, []string{"route", "code"}),
		events: prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: "bellpull", Subsystem: "gateway", Name: "events_total", Help: "Events of known senders, by what became of them.",
		}, []string{"sender", "outcome"}),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Namespace: "bellpull", Subsystem: "gateway", Name: "request_duration_seconds", Help: "From a request's header to its answer.",
			Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 10},
		}, []string{"route"}),
	}
	build := prometheus.NewGauge(prometheus.GaugeOpts{
		Namespace: "bellpull", Name: "build_info", Help: "1, labelled with the version.", ConstLabels: prometheus.Labels{"version": version},
	})
	build.Set(1)
	up := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Namespace: "bellpull", Subsystem: "gateway", Name: "connected", Help: "1 if the connection to NATS stands.",
	}, func() float64 {
		if connected() {
			return 1
		}
		return 0
	})
	m.registry.MustRegister(build, up, m.requests, m.events, m.seconds,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

func (m *Metrics) handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{Registry: m.registry})
}

func (m *Metrics) count(rec *record) {
	m.requests.WithLabelValues(rec.route, strconv.Itoa(rec.status)).Inc()
	m.seconds.WithLabelValues(rec.route).Observe(time.Since(rec.began).Seconds())
	for what, n := range rec.outcomes {
		if n > 0 {
			m.events.WithLabelValues(rec.sender, outcome(what).String()).Add(float64(n))
		}
	}
}
