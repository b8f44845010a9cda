package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/bellpull/bellpull/cmd/internal/config"
	"github.com/bellpull/bellpull/cmd/internal/natskv"
	"github.com/bellpull/bellpull/schemas"
)

const (
	// maxSkew is how far clocks may be apart: expiries and the order of events
	// rest on them.
	maxSkew = 5 * time.Second
	// wantPayload leaves room for a document's headers.
	wantPayload = schemas.MaxDocument + 16<<10
)

// store checks what NATS has to do with.
func (f *findings) store(ctx context.Context, cfg config.Config) {
	dialling, cancel := context.WithTimeout(ctx, answerFactor*cfg.NATS.Timeout)
	defer cancel()
	bucket, err := natskv.Dial(dialling, store(cfg))
	if err != nil {
		f.fail("nats", "check nats.servers, the credentials and the network", "%v", err)
		return
	}
	defer bucket.Close()
	readable := f.scopes(ctx, cfg, bucket)
	seen, err := bucket.Check(ctx)
	switch {
	case err != nil && readable:
		f.ok("nats", "connected")
		f.warn("streams", "nothing, if these are a node's credentials; else check their permissions",
			"the credentials do not show the streams: %v", err)
		return
	case err != nil:
		f.fail("nats", "check that JetStream is on, and the permissions", "%v", err)
		return
	}
	f.ok("nats", "connected to %s, nats-server %s, answer in %v", seen.URL, seen.Version, seen.RoundTrip.Round(10*time.Microsecond))
	if seen.MaxPayload < wantPayload {
		f.fail("nats payload", fmt.Sprintf("set max_payload to at least %d on the server", wantPayload),
			"the server takes messages of at most %d bytes", seen.MaxPayload)
	}
	f.streams(seen)
	f.herd(ctx, bucket)
	f.clock(seen)
}

// herd warns where a change would start many runs at once.
func (f *findings) herd(ctx context.Context, bucket *natskv.Bucket) {
	all, err := bucket.Statuses(ctx)
	if err != nil {
		f.warn("status", "check the permissions", "%v", err)
		return
	}
	nodes := map[string]natskv.NodeStatus{}
	for _, s := range all {
		nodes[s.Node] = s
	}
	limit, err := bucket.Limit(ctx)
	scope, n := herd(nodes)
	switch {
	case err != nil:
		f.warn("permits", "run `bellpull init`", "%v", err)
	case n > manyNodes && limit.Max == 0:
		f.warn("permits", "set a limit (bellpull permits set N) or a splay (watch.splay)", "%d nodes run at once when %s changes", n, scope)
	default:
		f.ok("permits", "limit of simultaneous runs: %v; %d nodes have reported", limit, len(nodes))
	}
	f.behind(nodes)
}

// behind warns of nodes that would not notice a server that is behind.
func (f *findings) behind(nodes map[string]natskv.NodeStatus) {
	n := 0
	for _, s := range nodes {
		if s.Status.Proof == "fact" {
			n++
		}
	}
	if n > 0 {
		f.warn("proof", "include class bellpull on them", "on %d of %d nodes a Puppet Server that is behind goes unnoticed: their catalogs lack class bellpull", n, len(nodes))
	}
}

// scopes reads what this node would read. It reports whether that was answered.
func (f *findings) scopes(ctx context.Context, cfg config.Config, bucket *natskv.Bucket) bool {
	scopes, err := cfg.Scopes()
	if err != nil {
		f.warn("node", "nothing, if this machine is not a node", "it is not known which scopes are this node's: %v", err)
	}
	ctx, cancel := context.WithTimeout(ctx, answerFactor*cfg.NATS.Timeout)
	defer cancel()
	reading, err := bucket.Read(ctx, scopes)
	if err != nil {
		if len(scopes) > 0 {
			f.fail("scopes", "", "%v", err)
		}
		return false
	}
	var read []string
	for _, r := range reading.Scopes {
		switch {
		case errors.Is(r.Err, schemas.ErrInvalid):
			f.fail("scopes", fmt.Sprintf("see `bellpull history %s`; nodes go on with the last good one", r.Scope), "%v", r.Err)
		case r.Err != nil:
			f.fail("scopes", "check the node's permissions", "scope %s: %v", r.Scope, r.Err)
		case r.Revision == 0 || r.Deleted:
			read = append(read, fmt.Sprintf("%s has no document", r.Scope))
		default:
			read = append(read, fmt.Sprintf("%s is at revision %d", r.Scope, r.Revision))
		}
	}
	if len(read) > 0 {
		f.ok("scopes", "%s", strings.Join(read, ", "))
	}
	return true
}

func (f *findings) streams(seen natskv.StreamCheck) {
	for _, s := range seen.Streams {
		switch {
		case s.Missing:
			f.fail("streams", "run `bellpull init`", "stream %s does not exist", s.Name)
		case len(s.Differences) > 0:
			var wrong []string
			fix := "run `bellpull init`"
			for _, d := range s.Differences {
				wrong = append(wrong, d.String())
				if d.Fixed {
					fix = "NATS does not change that: make the bucket anew under another name"
				}
			}
			f.fail("streams", fix, "stream %s: %s", s.Name, strings.Join(wrong, ", "))
		default:
			f.ok("streams", "%s is as it should be: %d messages, %d bytes, %d replicas", s.Name, s.Messages, s.Bytes, s.Replicas)
		}
	}
	if seen.BucketErr != nil {
		f.fail("bucket", "run `bellpull init`", "%v", seen.BucketErr)
		return
	}
	f.ok("bucket", "its id is %s, made at %s", seen.Bucket.ID, stamp(seen.Bucket.Created))
}

func (f *findings) clock(seen natskv.StreamCheck) {
	ahead := seen.ClockAhead.Round(time.Millisecond)
	if ahead.Abs() > maxSkew+seen.RoundTrip {
		f.warn("clock", "synchronise both clocks: expiries and the order of events rest on them",
			"the server's clock is %v off against this machine's", ahead)
		return
	}
	f.ok("clock", "the server's clock is within %v of this machine's", (ahead.Abs() + seen.RoundTrip).Round(time.Millisecond))
}
