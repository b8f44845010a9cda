package main

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/bellpull/bellpull/factsource"
)

// printer prints the fact once, whoever is first: the program or its deadline.
type printer struct {
	name           string // of the fact
	stdout, stderr *os.File

	mu      sync.Mutex
	printed bool
	said    bool
}

// endBy ends the program at the deadline whatever it waits for, even if that is
// the disk: with a fact, if none was printed. The caller calls stop in time.
func (p *printer) endBy(deadline time.Time) (stop func()) {
	timer := time.AfterFunc(time.Until(deadline.Add(-toEnd)), func() {
		p.unknown(errors.New("neither the configuration nor the state directory could be read in time"))
		os.Exit(exitOK)
	})
	return func() { timer.Stop() }
}

// print writes the fact in one piece: it is there as a whole or not at all.
func (p *printer) print(fact []byte) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.printed {
		return false
	}
	p.printed = true
	_, err := p.stdout.Write(fact)
	return err == nil
}

// unknown prints the fact of a node that cannot say what it should read.
func (p *printer) unknown(err error) {
	p.print(factsource.None(p.name, err.Error()))
	p.say(err.Error())
}

// say writes at most one short line.
func (p *printer) say(texts ...string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(texts) == 0 || p.said {
		return
	}
	p.said = true
	line := strings.Join(strings.Fields(strings.Join(texts, "; ")), " ")
	if len(line) > maxLine {
		line = strings.ToValidUTF8(line[:maxLine], "") + "…"
	}
	fmt.Fprintln(p.stderr, "bellpull-fact: "+line)
}
