package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/bellpull/bellpull/cmd/internal/bench/bar"
)

const connections = 32

func hashOf(token string) string {
	sum := sha256.Sum256([]byte(token))
	return "sha256:" + hex.EncodeToString(sum[:])
}

// candidate does one thing over and over: n counts over all rounds.
type candidate struct {
	name    string
	one     func(ctx context.Context, n int64) error
	n       atomic.Int64
	took    []time.Duration // each one's
	seconds float64
	pid     int           // of the process that does it
	cpu     time.Duration // that it has used
	server  time.Duration // that the NATS server has used meanwhile
}

func (c *candidate) rate() float64 { return float64(len(c.took)) / c.seconds }

// round lets so many at a time work for a while.
func (c *candidate) round(workers int, length time.Duration) error {
	ctx, cancel := context.WithTimeout(context.Background(), length+10*time.Second)
	defer cancel()
	began := time.Now()
	var mu sync.Mutex
	var failure error
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			var took []time.Duration
			var err error
			for time.Since(began) < length && err == nil {
				at := time.Now()
				err = c.one(ctx, c.n.Add(1))
				took = append(took, time.Since(at))
			}
			mu.Lock()
			defer mu.Unlock()
			c.took = append(c.took, took...)
			failure = errors.Join(failure, err)
		})
	}
	wg.Wait()
	c.seconds += time.Since(began).Seconds()
	if failure != nil {
		return fmt.Errorf("%s: %w", c.name, failure)
	}
	return nil
}

func client(workers int) *http.Client {
	return &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: workers, MaxConnsPerHost: workers, DisableCompression: true}}
}

// post sends a request and wants 202.
func post(ctx context.Context, client *http.Client, url string, body []byte) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+token)
	req.Header.Set("Content-Type", "application/cloudevents+json")
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusAccepted {
		err = fmt.Errorf("%s: %s", resp.Status, text)
	}
	return err
}

func event(scope, entry string, n int64) []byte {
	return fmt.Appendf(nil, `{"specversion":"1.0","type":"bellpull.set","id":"%d","source":"bench","time":%q,"subject":"group/%s","entry":%q,"kind":"firewall_rule","data":%s}`,
		n, time.Now().UTC().Format(time.RFC3339Nano), scope, entry, rule(n))
}

func rule(n int64) []byte {
	return fmt.Appendf(nil, `{"port":%d,"protocol":"tcp","action":"allow"}`, 1024+n%60000)
}

// parts are the processes of a section.
type parts struct {
	server, gateway, bare *program
	nc                    *nats.Conn
}

func startParts(dir string) (p parts, err error) {
	defer func() {
		if err != nil {
			p.stop()
		}
	}()
	if p.server, err = startServer(dir); err != nil {
		return p, err
	}
	if p.gateway, err = startGateway(dir, p.server.url); err != nil {
		return p, err
	}
	if p.bare, err = itself("bare", p.server.url); err != nil {
		return p, err
	}
	p.nc, err = nats.Connect(p.server.url)
	return p, err
}

func (p parts) stop() {
	p.nc.Close()
	for _, program := range []*program{p.bare, p.gateway, p.server} {
		if program != nil {
			program.stop()
		}
	}
}

// throughput: events to distinct scopes, at 32 connections.
func throughput(dir string, o options) error {
	p, err := startParts(dir)
	if err != nil {
		return err
	}
	defer p.stop()
	srv, gw, other, nc := p.server, p.gateway, p.bare, p.nc
	web := client(connections)
	candidates := []*candidate{
		{name: "gateway", pid: gw.cmd.Process.Pid, one: func(ctx context.Context, n int64) error {
			return post(ctx, web, gw.url+"/v1/events", event(fmt.Sprintf("g%d", n), "x", n))
		}},
		{name: "bare handler", pid: other.cmd.Process.Pid, one: func(ctx context.Context, n int64) error {
			return post(ctx, web, fmt.Sprintf("%s/set/b%d", other.url, n), event(fmt.Sprintf("b%d", n), "x", n))
		}},
		{name: "bare publish and its ack", one: func(ctx context.Context, n int64) error {
			_, err := put(ctx, nc, subject(fmt.Sprintf("p%d", n)), fmt.Appendf(nil, `{"bellpull":1,"entries":{"x":{"value":%s}}}`, event("p", "x", n)), 0)
			return err
		}},
	}
	for _, c := range candidates { // warm
		if err := c.round(connections, o.round/4); err != nil {
			return err
		}
		c.took, c.seconds = nil, 0
	}
	resident := 0
	for range o.rounds {
		for _, c := range candidates {
			own, nats := cpu(c.pid), cpu(srv.cmd.Process.Pid)
			done := make(chan error, 1)
			go func() { done <- c.round(connections, o.round) }()
			for working := true; working; {
				select {
				case err := <-done:
					if err != nil {
						return err
					}
					working = false
				case <-time.After(100 * time.Millisecond):
				}
				if working {
					continue
				}
				c.cpu, c.server = c.cpu+cpu(c.pid)-own, c.server+cpu(srv.cmd.Process.Pid)-nats
				if kib, err := bar.Resident(gw.cmd.Process.Pid); err == nil {
					resident = max(resident, kib)
				}
			}
		}
	}
	for _, c := range candidates {
		each := func(d time.Duration) int64 { return d.Microseconds() / int64(len(c.took)) }
		fmt.Printf("%-25s %7.0f a second, p50 %s, p99 %s; CPU an event: %d us, and %d us of the NATS server\n",
			c.name, c.rate(), bar.Ms(bar.Median(c.took)), bar.Ms(bar.Quantile(c.took, 0.99)), each(c.cpu), each(c.server))
	}
	gateway, bareHandler, acks := candidates[0], candidates[1], candidates[2]
	fmt.Printf("gateway by bare publish acks: %.2f\n", gateway.rate()/acks.rate())
	bar.Print("bare handler's events a second by the gateway's (1 / 0.6)", bareHandler.rate()/gateway.rate(), 1/0.6, "")
	bar.Print("gateway's p99 over the bare handler's",
		float64((bar.Quantile(gateway.took, 0.99)-bar.Quantile(bareHandler.took, 0.99)).Microseconds())/1000, 5, " ms")
	bar.Print("gateway's resident memory under load", float64(resident)/1024, 40, " MiB")
	return nil
}

// cpu is what a process has used so far; 0 for none.
func cpu(pid int) time.Duration {
	if pid == 0 {
		return 0
	}
	used, err := bar.CPU(pid)
	if err != nil { // it has ended, and then the load has failed too
		return 0
	}
	return used
}

const publishers = 100

// contention: 100 publishers on one document.
func contention(dir string, o options) error {
	p, err := startParts(dir)
	if err != nil {
		return err
	}
	defer p.stop()
	gw, other, nc := p.gateway, p.bare, p.nc
	web := client(publishers)
	together := &candidate{name: "gateway", one: func(ctx context.Context, n int64) error {
		return post(ctx, web, gw.url+"/v1/events", event("all", fmt.Sprintf("e%d", n%1000), n))
	}}
	single := &candidate{name: "a compare-and-set for each event", one: func(ctx context.Context, n int64) error {
		return post(ctx, web, fmt.Sprintf("%s/add/single/e%d", other.url, n%1000), rule(n))
	}}
	for range max(o.rounds/2, 1) {
		for _, c := range []*candidate{together, single} {
			if err := c.round(publishers, o.round); err != nil {
				return err
			}
		}
	}
	for _, c := range []*candidate{together, single} {
		fmt.Printf("%-35s %7.0f events a second, p99 %s\n", c.name, c.rate(), bar.Ms(bar.Quantile(c.took, 0.99)))
	}
	lost, err := missing(nc, "all", together.n.Load())
	if err != nil {
		return err
	}
	bar.Print("events of 100 publishers on one document that were lost", float64(lost), 0, "")
	bar.Print("a compare-and-set for each event by the gateway (1 / 5)", single.rate()/together.rate(), 0.2, "")
	return nil
}

// missing counts the entries whose value is not of one of their last events: those
// that were under way together may have come in any order of their times.
func missing(nc *nats.Conn, scope string, events int64) (lost int, err error) {
	body, _, err := get(context.Background(), nc, subject(scope))
	if err != nil {
		return 0, err
	}
	for entry := range min(events, 1000) {
		found := false
		for n := events; n > 0 && n > events-3000; n-- {
			want := fmt.Sprintf(`"event":"%d"`, n)
			if n%1000 == entry && bytes.Contains(body, []byte(want)) {
				found = true
				break
			}
		}
		if !found {
			lost++
		}
	}
	return lost, nil
}
