package keeper_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bellpull/bellpull/schemas"
)

// Who asks first is served first, over all keepers.
func TestFirstComeFirstServed(t *testing.T) {
	f := newFleet(t, 1)
	f.keep()
	f.keep()
	f.tokens(1)
	first := f.ask("first.example.com")
	permit := first.granted()
	var line []*asker
	for i := range 10 {
		line = append(line, f.ask(fmt.Sprintf("n%d.example.com", i)).waiting())
	}
	first.release(permit)
	for i, a := range line {
		got := a.granted()
		for _, later := range line[i+1:] {
			if answer, ok := later.next(0); ok && !answer.Waiting {
				t.Errorf("%+v before its turn", answer)
			}
		}
		a.release(got)
	}
}

// The limit holds with many nodes and two keepers, and all are served.
func TestLimit(t *testing.T) {
	f := newFleet(t, 5)
	f.keep()
	f.keep()
	f.tokens(5)
	var all sync.WaitGroup
	for i := range 60 {
		a := f.ask(fmt.Sprintf("n%d.example.com", i))
		all.Go(func() {
			permit := a.granted()
			f.hold(1)
			time.Sleep(30 * time.Millisecond) // the run
			f.hold(-1)
			a.release(permit)
		})
	}
	all.Wait()
	if f.most > 5 || f.most < 2 {
		t.Errorf("%d permits were held at once, want up to 5", f.most)
	}
}

// Any keeper renews and takes back what another has granted.
func TestRenewByAnotherKeeper(t *testing.T) {
	f := newFleet(t, 1)
	f.lease(6 * time.Second)
	stop := f.keep()
	a := f.ask("a.example.com")
	permit := a.granted()
	f.keep()
	stop()
	b := f.ask("b.example.com").waiting()
	for range 4 { // longer than the lease
		time.Sleep(2 * time.Second)
		renewed, err := a.Renew(f.ctx(), permit)
		if err != nil {
			t.Fatal(err)
		}
		if !renewed.Until.After(permit.Until) {
			t.Errorf("renewed until %v, before it was %v", renewed.Until, permit.Until)
		}
		permit = renewed
	}
	b.notGranted()
	a.release(permit)
	b.release(b.granted())
}

// A holder that is not heard for the lease loses its permit, and what it says too
// late does not free the permit of the next holder.
func TestStaleRelease(t *testing.T) {
	f := newFleet(t, 1)
	f.lease(4 * time.Second)
	f.keep()
	a := f.ask("a.example.com")
	permit := a.granted()
	b := f.ask("b.example.com").waiting()
	b.granted() // by the lapse of a's
	c := f.ask("c.example.com").waiting()
	for _, late := range []schemas.Permit{permit, {Handle: permit.Handle, Until: time.Now().Add(time.Hour)}} {
		if err := a.Release(f.ctx(), late); !errors.Is(err, schemas.ErrConflict) {
			t.Errorf("release of a lapsed permit: %v, want a conflict", err)
		}
		if _, err := a.Renew(f.ctx(), late); !errors.Is(err, schemas.ErrConflict) {
			t.Errorf("renewal of a lapsed permit: %v, want a conflict", err)
		}
	}
	c.notGranted()
}

// A node cannot use what is not its own, and cannot make a permit up.
func TestRogueHandles(t *testing.T) {
	f := newFleet(t, 1)
	f.keep()
	a := f.ask("a.example.com")
	permit := a.granted()
	rogue := f.ask("rogue.example.com").waiting()
	body, mac, _ := strings.Cut(permit.Handle, ".")
	for name, handle := range map[string]string{
		"another node's": permit.Handle, "cut": body, "changed": body[:len(body)-2] + "fQ." + mac, "empty": "", "made up": "e30." + mac, "no text": "\xff.\x00",
	} {
		for action, do := range map[string]func(schemas.Permit) error{
			"release": func(p schemas.Permit) error { return rogue.Release(f.ctx(), p) },
			"renew":   func(p schemas.Permit) error { _, err := rogue.Renew(f.ctx(), p); return err },
		} {
			if err := do(schemas.Permit{Handle: handle, Until: time.Now().Add(time.Minute)}); err == nil {
				t.Errorf("%s of a handle that is %s: no error", action, name)
			}
		}
	}
	rogue.notGranted()
	a.release(permit)
	rogue.granted()
}

// Nodes that died in line are passed over at once, and who leaves leaves no gap.
func TestDeadInLine(t *testing.T) {
	f := newFleet(t, 1)
	f.keep()
	first := f.ask("first.example.com")
	permit := first.granted()
	clients := f.server.Embedded().NumClients()
	for i := range 5 {
		gone := f.ask(fmt.Sprintf("gone%d.example.com", i)).waiting()
		if i%2 == 0 {
			gone.leave()
		} else {
			gone.bucket.Close()
		}
	}
	f.until("NATS knows that two are gone", func() bool { return f.server.Embedded().NumClients() == clients+3 })
	last := f.ask("last.example.com").waiting()
	begin := time.Now()
	first.release(permit)
	last.granted()
	if took := time.Since(begin); took > 20*time.Second {
		t.Errorf("it took %v to pass over five dead nodes; the lease is a minute", took)
	}
}

// A keeper that ends strands nobody.
func TestKeeperEnds(t *testing.T) {
	f := newFleet(t, 1)
	stop := f.keep()
	first := f.ask("first.example.com")
	permit := first.granted()
	second := f.ask("second.example.com").waiting()
	stop()
	f.keep()
	if permit = must(first.Renew(f.ctx(), permit)); permit.Handle == "" {
		t.Error("no handle")
	}
	first.release(permit)
	second.granted()
}

// Without a keeper nothing is granted, and it is said.
func TestNoKeeper(t *testing.T) {
	f := newFleet(t, 1)
	a := f.ask("a.example.com")
	if answer, ok := a.next(patience); !ok || !errors.Is(answer.Err, schemas.ErrUnavailable) {
		t.Errorf("answer %+v, want that nobody answers", answer)
	}
	f.keep()
	a.granted()
}

// Without a limit who asks, and who stands in line already, runs without a permit.
func TestLimitTakenAway(t *testing.T) {
	f := newFleet(t, 1)
	f.keep()
	f.ask("a.example.com").granted()
	b := f.ask("b.example.com").waiting()
	f.limit(0)
	for _, a := range []*asker{b, f.ask("c.example.com")} {
		for {
			answer, open := a.next(patience)
			if !open {
				t.Fatal("no answer")
			}
			if answer.Waiting {
				continue
			}
			if answer.Err != nil || answer.Permit.Handle != "" {
				t.Errorf("answer %+v, want a permit without a handle", answer)
			}
			break
		}
	}
	f.tokens(0)
}

// The limit works live in both directions.
func TestLimitChanged(t *testing.T) {
	f := newFleet(t, 1)
	f.keep()
	f.keep()
	permits := map[*asker]schemas.Permit{}
	a := f.ask("a.example.com")
	permits[a] = a.granted()
	b := f.ask("b.example.com").waiting()
	f.limit(3)
	permits[b] = b.granted()
	c := f.ask("c.example.com")
	permits[c] = c.granted()
	f.tokens(3)
	d := f.ask("d.example.com").waiting()
	f.limit(2)
	f.tokens(2)
	for holder, permit := range permits {
		if _, err := holder.Renew(f.ctx(), permit); err != nil {
			t.Errorf("renewal after the limit was lowered: %v", err)
		}
		holder.release(permit)
	}
	permit := d.granted()
	e := f.ask("e.example.com")
	e.granted()
	last := f.ask("last.example.com").waiting()
	last.notGranted()
	d.release(permit)
	last.granted()
}
