// Bellpull-fact prints the node's desired state as an external fact for Facter.
//
// Facter calls it without arguments, keeps its standard input open and waits
// for it however long it takes, ignores its exit status, and makes a warning of
// every line on standard error. So it reads no input, ends within fact.deadline
// whatever the servers do, prints the fact even when there is none to know, and
// is silent when all is well.
//
// It links neither the command line's library nor the schema validator: a test
// holds its start-up time and its size down.
package main

import (
	"flag"
	"fmt"
	"os"
	"time"

	"github.com/bellpull/bellpull/cmd/internal/config"
	"github.com/bellpull/bellpull/factsource"
)

const (
	exitOK    = 0
	exitUsage = 2

	// defaultDeadline holds until the configuration is read.
	defaultDeadline = 1500 * time.Millisecond
	// The reading ends this long before the deadline, and the program so long.
	toDecide = 100 * time.Millisecond
	toEnd    = 30 * time.Millisecond

	maxLine = 300 // bytes on standard error
)

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

func run(args []string, stdout, stderr *os.File) int {
	start := time.Now()
	flags := flag.NewFlagSet("bellpull-fact", flag.ContinueOnError)
	flags.SetOutput(stderr)
	file := flags.String("config", "", "configuration `file`; default $BELLPULL_CONFIG or "+config.DefaultFile)
	if err := flags.Parse(args); err != nil {
		return exitUsage // flag has said why
	}
	if flags.NArg() > 0 {
		fmt.Fprintf(stderr, "bellpull-fact: unexpected argument %q\n", flags.Arg(0))
		return exitUsage
	}

	p := &printer{name: factsource.DefaultName, stdout: stdout, stderr: stderr}
	stop := p.endBy(start.Add(defaultDeadline))
	cfg, err := config.Load(*file)
	if err != nil {
		p.unknown(err)
		return exitOK
	}
	stop()
	p.name = cfg.Fact.Name
	deadline := start.Add(cfg.Fact.Deadline)
	defer p.endBy(deadline)()
	c, err := collect(cfg, deadline.Add(-toDecide))
	if err != nil {
		p.unknown(err)
		return exitOK
	}
	if p.print(c.Fact) {
		if err := c.Record(); err != nil {
			c.Warnings = append(c.Warnings, err.Error())
		}
	}
	p.say(c.Warnings...)
	return exitOK
}
