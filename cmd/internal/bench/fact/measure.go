package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"time"

	"github.com/bellpull/bellpull/cmd/internal/bench/bar"
)

// candidate is one program that is measured.
type candidate struct {
	name string
	argv []string
	env  []string
	want string // what its output must hold
	// lenient takes any exit status: facter has one of its own for what a sandbox
	// forbids it.
	lenient bool

	wall, cpu []time.Duration
}

// run starts the program once, waits for it, and notes wall and CPU time: its
// own and that of the processes it waited for.
func (c *candidate) run() error {
	cmd := exec.Command(c.argv[0], c.argv[1:]...)
	cmd.Env = append(os.Environ(), c.env...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	start := time.Now()
	err := cmd.Run()
	wall := time.Since(start)
	if err != nil && !c.lenient {
		return fmt.Errorf("%s: %w: %s", c.name, err, stderr.String())
	}
	if !bytes.Contains(stdout.Bytes(), []byte(c.want)) {
		return fmt.Errorf("%s: %q is not in its output: %s%s", c.name, c.want, stdout.String(), stderr.String())
	}
	c.wall = append(c.wall, wall)
	c.cpu = append(c.cpu, cmd.ProcessState.UserTime()+cmd.ProcessState.SystemTime())
	return nil
}

// interleave runs the candidates in turn, in another order every round, so that
// a busy moment of the machine meets all of them.
func interleave(rounds int, candidates ...*candidate) error {
	for _, c := range candidates {
		if err := c.run(); err != nil { // the first start reads from disk
			return err
		}
		c.wall, c.cpu = nil, nil
	}
	for round := range rounds {
		for i := range candidates {
			if err := candidates[(i+round)%len(candidates)].run(); err != nil {
				return err
			}
		}
	}
	return nil
}

// ratio is the median over the rounds of a's time by b's in the same round,
// which a slow change of the machine's speed does not move.
func ratio(a, b []time.Duration) float64 {
	ratios := make([]float64, 0, len(a))
	for i := range a {
		ratios = append(ratios, float64(a[i])/float64(b[i]))
	}
	slices.Sort(ratios)
	return (ratios[(len(ratios)-1)/2] + ratios[len(ratios)/2]) / 2
}

func (c *candidate) report() {
	quartile := func(q int) time.Duration { return slices.Sorted(slices.Values(c.wall))[len(c.wall)*q/4] }
	fmt.Printf("%-44s wall %9s (quartiles %s to %s)   cpu %9s   n=%d\n",
		c.name, bar.Ms(bar.Median(c.wall)), bar.Ms(quartile(1)), bar.Ms(quartile(3)), bar.Ms(bar.Median(c.cpu)), len(c.wall))
}
