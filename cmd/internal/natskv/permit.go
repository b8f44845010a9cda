package natskv

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/bellpull/bellpull/schemas"
)

const (
	// firstWord is how long a keeper may take for its first answer, and silence how
	// long who stands in line goes without a word.
	firstWord = 5 * time.Second
	silence   = 40 * time.Second
	// A node whose connection came back asks anew within returning: a keeper that
	// found it gone has struck it off.
	returning = time.Second
	// longAsk is the longest pause between two attempts to find a keeper.
	longAsk = 30 * time.Second
)

var errNoKeeper = fmt.Errorf("%w: no keeper of permits answers; bellpull server is one, and so is bellpull-auth", schemas.ErrUnavailable)

// Permits asks keepers for permits to run, as the node of [Config.Node].
type Permits struct {
	b       *Bucket
	subject string
	err     error // the node has no name
}

// Permits returns what asks for permits on this connection.
func (b *Bucket) Permits() *Permits {
	token, err := nodeToken(b.cfg.Node)
	return &Permits{b: b, subject: b.permitRequest(token), err: err}
}

// Ask stands in line until a permit is granted or ctx ends. Where nobody answers,
// an error is sent, and it asks again, with growing and random pauses of up to
// 30 s. A permit without a handle means that there is no limit. The channel is
// closed after the grant, and when ctx or the bucket ends.
func (p *Permits) Ask(ctx context.Context) <-chan schemas.PermitAnswer {
	out := make(chan schemas.PermitAnswer)
	p.b.changes.Go(func() {
		defer close(out)
		p.ask(ctx, out)
	})
	return out
}

func (p *Permits) ask(ctx context.Context, out chan<- schemas.PermitAnswer) {
	say := func(a schemas.PermitAnswer) bool {
		select {
		case out <- a:
			return true
		case <-ctx.Done():
		case <-p.b.link.ended:
		}
		return false
	}
	for tries := 0; ; tries++ {
		granted, heard, err := p.stand(ctx, func() { say(schemas.PermitAnswer{Waiting: true}) })
		if granted != nil {
			if !say(schemas.PermitAnswer{Permit: *granted}) {
				p.giveBack(*granted)
			}
			return
		}
		if heard {
			tries = 0
		}
		wait := rand.N(returning)
		if err != nil {
			say(schemas.PermitAnswer{Err: err})
			wait = min(time.Second<<min(tries, 5), longAsk)
			wait = wait/2 + rand.N(wait)
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return
		case <-p.b.link.ended:
			timer.Stop()
			return
		}
	}
}

// stand stands in line once: until a permit is granted, nobody answers, or the
// line is worth nothing any more, which is no error. heard tells whether a keeper
// has answered.
func (p *Permits) stand(ctx context.Context, waiting func()) (granted *schemas.Permit, heard bool, err error) {
	if p.err != nil {
		return nil, false, p.err
	}
	connecting, cancel := context.WithTimeout(ctx, firstWord)
	defer cancel()
	if err := p.b.link.wait(connecting); err != nil {
		return nil, false, p.b.explain(err)
	}
	alarms, stop := p.b.link.alarm()
	defer stop()
	<-alarms // of the connection that stands
	inbox := p.b.nc.NewInbox()
	replies := make(chan *nats.Msg, 8)
	line, err := p.b.nc.ChanSubscribe(inbox, replies)
	if err != nil {
		return nil, false, p.b.explain(err)
	}
	defer func() {
		if granted == nil {
			p.refuse(line, replies)
		} else {
			_ = line.Unsubscribe() // fails only when the connection has ended
		}
	}()
	if err := p.send(inbox, PermitAsk{Action: PermitAcquire}); err != nil {
		return nil, false, p.b.explain(err)
	}
	patience := time.NewTimer(firstWord)
	defer patience.Stop()
	for {
		select {
		case <-p.b.link.ended:
			return nil, heard, nil
		case <-ctx.Done():
			return nil, heard, nil
		case <-alarms:
			return nil, heard, nil // the connection is new: the keeper may have struck us off
		case <-patience.C:
			return nil, heard, fmt.Errorf("%w: no keeper of permits answers any more", schemas.ErrUnavailable)
		case m := <-replies:
			reply, err := p.reply(m)
			switch {
			case err != nil:
				return nil, heard, err
			case reply.None:
				return &schemas.Permit{}, true, nil
			case reply.Handle != "":
				// What was granted long ago, and came late, is not taken for a permit.
				permit, err := p.Renew(ctx, schemas.Permit{Handle: reply.Handle, Until: time.Now().Add(firstWord)})
				if err != nil {
					return nil, true, nil
				}
				return &permit, true, nil
			case reply.Again:
				return nil, true, nil
			case reply.Waiting:
				heard = true
				patience.Reset(silence)
				waiting()
			}
		}
	}
}

// refuse leaves the line, and gives back what was granted before the server has
// heard of it. A grant that comes later finds nobody, which NATS tells the keeper.
func (p *Permits) refuse(line *nats.Subscription, replies <-chan *nats.Msg) {
	ctx, cancel := context.WithTimeout(context.Background(), p.b.cfg.Timeout)
	defer cancel()
	_ = line.Drain() // unlike Unsubscribe it takes what is on its way
	_ = p.b.nc.FlushWithContext(ctx)
	for {
		select {
		case m := <-replies:
			if reply, err := p.reply(m); err == nil && reply.Handle != "" {
				p.giveBack(schemas.Permit{Handle: reply.Handle, Until: time.Now().Add(firstWord)})
			}
		default:
			return
		}
	}
}

// giveBack returns a permit that nobody waits for any more. One that cannot be
// returned lapses.
func (p *Permits) giveBack(permit schemas.Permit) {
	if permit.Handle == "" {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), p.b.cfg.Timeout)
	defer cancel()
	_ = p.Release(ctx, permit)
}

func (p *Permits) send(reply string, ask PermitAsk) error {
	m, err := p.message(ask)
	if err != nil {
		return err
	}
	m.Reply = reply
	return p.b.nc.PublishMsg(m)
}

func (p *Permits) message(ask PermitAsk) (*nats.Msg, error) {
	body, err := json.Marshal(ask)
	if err != nil {
		return nil, err
	}
	m := nats.NewMsg(p.subject)
	m.Data = body
	return m, nil
}

func (p *Permits) reply(m *nats.Msg) (PermitReply, error) {
	if len(m.Data) == 0 && m.Header.Get("Status") == "503" {
		return PermitReply{}, errNoKeeper
	}
	var reply PermitReply
	if err := json.Unmarshal(m.Data, &reply); err != nil {
		return PermitReply{}, fmt.Errorf("%w: a keeper of permits answered %.100q", schemas.ErrUnavailable, m.Data)
	}
	if reply.Error != "" {
		return PermitReply{}, fmt.Errorf("%w: the keeper of permits says: %s", schemas.ErrUnavailable, reply.Error)
	}
	return reply, nil
}

// Renew asks for a later end of the permit. The error matches
// [schemas.ErrConflict] when the permit has lapsed, and [schemas.ErrUnavailable]
// when nobody answered: the permit is good until its end all the same.
func (p *Permits) Renew(ctx context.Context, permit schemas.Permit) (schemas.Permit, error) {
	sent := time.Now()
	reply, err := p.once(ctx, permit, PermitRenew)
	if err != nil {
		return schemas.Permit{}, fmt.Errorf("renew the permit: %w", err)
	}
	if reply.Handle == "" {
		return schemas.Permit{}, fmt.Errorf("renew the permit: %w: the keeper's answer holds none", schemas.ErrUnavailable)
	}
	// Whoever holds it past its lease holds somebody else's: leave a sixth of it unused.
	lease := time.Duration(reply.Lease) * time.Millisecond
	return schemas.Permit{Handle: reply.Handle, Until: sent.Add(lease - lease/6)}, nil
}

// Release gives the permit back. The error matches [schemas.ErrConflict] when it
// has lapsed: nothing is done then, because it may be somebody else's by now. One
// that could not be given back frees itself when it lapses.
func (p *Permits) Release(ctx context.Context, permit schemas.Permit) error {
	if _, err := p.once(ctx, permit, PermitRelease); err != nil {
		return fmt.Errorf("give the permit back: %w", err)
	}
	return nil
}

// once asks about a permit, and never repeats itself: a second release could meet
// the next holder's permit.
func (p *Permits) once(ctx context.Context, permit schemas.Permit, action string) (PermitReply, error) {
	ctx, cancel := bounded(ctx, firstWord)
	defer cancel()
	if p.err != nil {
		return PermitReply{}, p.err
	}
	lapsed := fmt.Errorf("%w: it has lapsed", schemas.ErrConflict)
	if !time.Now().Before(permit.Until) {
		return PermitReply{}, lapsed
	}
	ctx, stop := context.WithDeadline(ctx, permit.Until)
	defer stop()
	m, err := p.message(PermitAsk{Action: action, Handle: permit.Handle})
	if err != nil {
		return PermitReply{}, err
	}
	answer := p.b.attempt(ctx, []*nats.Msg{m}, []int{0})[0]
	if errors.Is(answer.err, nats.ErrNoResponders) {
		return PermitReply{}, errNoKeeper
	}
	if answer.err != nil {
		return PermitReply{}, p.b.explain(answer.err)
	}
	reply, err := p.reply(answer.msg)
	if err == nil && reply.Lapsed {
		err = lapsed
	}
	return reply, err
}
