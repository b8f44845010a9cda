package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/bellpull/bellpull/cmd/internal/bench/bar"
	"github.com/bellpull/bellpull/cmd/internal/natskv"
	"github.com/bellpull/bellpull/schemas"
)

const keepers = 2

// startHerd starts a server with a limit, two keepers and n nodes.
func (b *bench) startHerd(ctx context.Context, name string, n int) (f *fleet, admin *natskv.Bucket, stop func(), err error) {
	server, err := b.startServer(name)
	if err != nil {
		return nil, nil, nil, err
	}
	if admin, err = server.bucket(ctx, n, 0); err != nil {
		return nil, nil, nil, err
	}
	started, stopKeepers, err := b.startKeepers(keepers, server.url())
	if err != nil {
		return nil, nil, nil, err
	}
	f = b.newFleet(server, b.run)
	for _, keeper := range started {
		f.keepers = append(f.keepers, keeper.Process.Pid)
	}
	stop = func() {
		f.end()
		stopKeepers()
		admin.Close()
		server.kill()
	}
	if err = f.gather(ctx, n, true); err == nil {
		err = admin.SetLimit(ctx, schemas.Limit{Known: true, Max: b.limit})
	}
	if err == nil {
		_, err = admin.MendPermits(ctx)
	}
	if err != nil {
		stop()
		return nil, nil, nil, err
	}
	return f, admin, stop, nil
}

// herd lets all nodes be owed a run at once, with a limit.
func (b *bench) herd(ctx context.Context) error {
	f, admin, stop, err := b.startHerd(ctx, "herd", b.nodes)
	if err != nil {
		return err
	}
	defer stop()
	before := f.cpu()
	begin := time.Now()
	if _, err := change(ctx, admin, "common", 1); err != nil {
		return err
	}
	for i := range b.nodes {
		if i > 0 && i%(b.nodes/5) == 0 {
			after := f.cpu()
			fmt.Printf("%d runs ended after %.2f s; CPU so far: server %.2f s, keepers %.2f s, all nodes %.2f s\n", i, time.Since(begin).Seconds(),
				(after[0] - before[0]).Seconds(), (after[1] - before[1]).Seconds(), (after[2] - before[2]).Seconds())
		}
		select {
		case <-f.ended:
		case <-time.After(time.Minute):
			none, _, _ := f.runs()
			b.check(false, "the herd stands still: %d nodes have not run", none)
			return nil
		}
	}
	makespan := f.last.Sub(begin)
	time.Sleep(5 * time.Second)
	ideal := time.Duration((b.nodes+b.limit-1)/b.limit) * b.run
	none, once, more := f.runs()
	fmt.Printf("%d nodes, one change, %d permits, runs of %v, %d keepers: %.2f s, ideal %.2f s; at most %d at once; %d ran once, %d not at all, %d more than once\n",
		b.nodes, b.limit, b.run, keepers, makespan.Seconds(), ideal.Seconds(), f.most, once, none, more)
	b.check(f.most <= b.limit, "%d runs at once, the limit is %d", f.most, b.limit)
	b.check(none == 0 && more == 0, "%d nodes did not run and %d ran more than once", none, more)
	bar.Print("herd: makespan by the ideal", makespan.Seconds()/ideal.Seconds(), 1.08, "")
	return nil
}

// faults is the herd with 2 % of the holders killed in the middle of their runs,
// and the server killed and started in the middle of it all.
func (b *bench) faults(ctx context.Context) error {
	f, admin, stop, err := b.startHerd(ctx, "faults", b.faultNodes)
	if err != nil {
		return err
	}
	defer stop()
	// A killed holder's permit is free again a lease after it was granted, just before its run began.
	count, err := admin.PermitCount(ctx)
	if err != nil {
		return err
	}
	f.lapse = count.Lease - 2*time.Second
	doomed := b.faultNodes / 50
	for _, i := range rand.Perm(b.faultNodes)[:doomed] {
		f.nodes[i].doom = true
	}
	begin := time.Now()
	if _, err := change(ctx, admin, "common", 1); err != nil {
		return err
	}
	for i := range b.faultNodes {
		if i == b.faultNodes/3 {
			f.server.kill()
			if err := f.server.launch(b); err != nil {
				return err
			}
			fmt.Printf("the server was killed and started after %d runs, %.1f s\n", i, time.Since(begin).Seconds())
		}
		select {
		case <-f.ended:
		case <-time.After(3 * time.Minute):
			none, _, _ := f.runs()
			b.check(false, "the herd stands still: %d nodes have not run", none)
			return nil
		}
	}
	took := time.Since(begin)
	time.Sleep(5 * time.Second)
	none, once, more := f.runs()
	fmt.Printf("%d nodes, %d holders killed, one restart: all others served in %.1f s; at most %d permits held at once, those of killed holders counted until %v after their grant; %d ran once, %d not at all, %d more than once\n",
		b.faultNodes, doomed, took.Seconds(), f.most, f.lapse, once, none, more)
	b.check(f.most <= b.limit, "%d permits held at once, the limit is %d", f.most, b.limit)
	b.check(none == 0 && more == 0, "%d nodes did not run and %d ran more than once", none, more)
	return nil
}
