package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/schollz/progressbar/v3"

	"github.com/bellpull/bellpull/cmd/internal/config"
	"github.com/bellpull/bellpull/cmd/internal/natskv"
	"github.com/bellpull/bellpull/schemas"
)

// sayEvery is how often is said how far it is where there is no terminal.
const sayEvery = 15 * time.Second

// wait waits until every node of the fleet has applied the targets.
func (a *app) wait(ctx context.Context, f *fleet, o statusOptions) error {
	cfg, err := config.Load(a.configFile)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, o.timeout)
	defer cancel()
	bucket, err := natskv.Connect(ctx, store(cfg)) // comes back by itself, unlike the one that asked
	if err != nil {
		return err
	}
	defer bucket.Close()
	changes, err := bucket.StatusChanges(ctx)
	if err != nil {
		return err
	}
	progress := a.progress(len(f.nodes))
	defer progress.end()
	judged := map[string]judgement{}
	for node, s := range f.nodes {
		judged[node] = f.judge(s)
	}
	for {
		done, open := tally(judged)
		progress.show(done, len(judged))
		if open == 0 {
			progress.end()
			return a.settled(f, judged)
		}
		select {
		case <-ctx.Done():
			progress.end()
			if !errors.Is(ctx.Err(), context.DeadlineExceeded) {
				return context.Cause(ctx)
			}
			return missing(f, judged, o)
		case <-progress.again:
		case s, open := <-changes:
			if !open {
				changes = nil // ctx has ended
				continue
			}
			f.hear(ctx, bucket, s, judged)
		}
	}
}

// hear takes one report over, or after a new connection everybody's.
func (f *fleet) hear(ctx context.Context, bucket *natskv.Bucket, s natskv.NodeStatus, judged map[string]judgement) {
	news := []natskv.NodeStatus{s}
	if s.Node == "" {
		all, err := bucket.Statuses(ctx)
		if err != nil {
			return // the next connection asks again
		}
		news = all
	}
	for _, s := range news {
		if _, known := f.nodes[s.Node]; known {
			f.nodes[s.Node] = s
			judged[s.Node] = f.judge(s)
		}
	}
}

// tally counts the nodes that have applied the targets, and those that may yet.
func tally(judged map[string]judgement) (done, open int) {
	for _, j := range judged {
		switch j.verdict {
		case converged:
			done++
		case failed:
		default:
			open++
		}
	}
	return done, open
}

type waitView struct {
	Nodes     int        `json:"nodes"`
	Converged int        `json:"converged"`
	Failed    []nodeView `json:"failed"`
}

// settled tells how it went when every node has applied the targets or failed.
func (a *app) settled(f *fleet, judged map[string]judgement) error {
	view := waitView{Nodes: len(judged), Failed: []nodeView{}}
	view.Converged, _ = tally(judged)
	var lines []string
	for _, node := range slices.Sorted(maps.Keys(judged)) {
		if judged[node].verdict == failed {
			v := f.view(node, statusOptions{silent: time.Duration(1<<63 - 1)})
			view.Failed = append(view.Failed, v)
			lines = append(lines, node+": "+v.Why)
		}
	}
	if err := a.print(view, func(row func(...any)) {
		row("NODES", "CONVERGED", "FAILED")
		row(view.Nodes, view.Converged, len(view.Failed))
	}); err != nil {
		return err
	}
	if len(lines) > 0 {
		return fmt.Errorf("%d of %d nodes failed: %s", len(lines), len(judged), few(lines))
	}
	return nil
}

// missing says who is not there when the time is over, and why.
func missing(f *fleet, judged map[string]judgement, o statusOptions) error {
	var lines []string
	for _, node := range slices.Sorted(maps.Keys(judged)) {
		if j := judged[node]; j.verdict != converged {
			j = heard(f.nodes[node], j, time.Now(), o.silent)
			lines = append(lines, fmt.Sprintf("%s: %s", node, strings.TrimSuffix(fmt.Sprintf("%s, %s", j.verdict, j.why), ", ")))
		}
	}
	return fmt.Errorf("%w: after %v %d of %d nodes have not applied it: %s", schemas.ErrUnavailable, o.timeout, len(lines), len(judged), few(lines))
}

// few joins the first lines.
func few(lines []string) string {
	const most = 10
	if len(lines) > most {
		return strings.Join(lines[:most], "; ") + fmt.Sprintf("; and %d more", len(lines)-most)
	}
	return strings.Join(lines, "; ")
}

// progress shows how far it is, on stderr: a bar on a terminal, else a line now and then.
type progress struct {
	out   io.Writer
	bar   *progressbar.ProgressBar
	said  string
	again <-chan time.Time
	stop  func()
}

func (a *app) progress(nodes int) *progress {
	p := &progress{out: a.streams.Err, stop: func() {}}
	if isTerminal(a.streams.Err) {
		p.bar = progressbar.NewOptions(nodes, progressbar.OptionSetWriter(p.out), progressbar.OptionSetDescription("applied"),
			progressbar.OptionShowCount(), progressbar.OptionSetWidth(40), progressbar.OptionClearOnFinish())
		return p
	}
	ticker := time.NewTicker(sayEvery)
	p.again, p.stop = ticker.C, ticker.Stop
	return p
}

func (p *progress) show(done, nodes int) {
	if p.bar != nil {
		_ = p.bar.Set(done) // a terminal that is gone has nobody to tell
		return
	}
	select {
	case <-p.again:
	default:
		if p.said != "" {
			return
		}
	}
	if line := fmt.Sprintf("bellpull: %d of %d nodes have applied it\n", done, nodes); line != p.said {
		p.said = line
		fmt.Fprint(p.out, line)
	}
}

func (p *progress) end() {
	p.stop()
	if p.bar != nil {
		_ = p.bar.Finish()
		p.bar = nil
	}
}
