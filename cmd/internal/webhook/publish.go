package webhook

import (
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/bellpull/bellpull/cmd/internal/publish"
	"github.com/bellpull/bellpull/schemas"
)

const (
	// publishTime is for an event to be stored, one fresh connection included.
	publishTime = 2 * time.Second
	// batchTime is what each further event of a batch adds.
	batchTime = 5 * time.Millisecond
	// parallel is how many events of a batch are on their way at a time; those of
	// one scope go together.
	parallel = 64
)

// stored tells of one event. Its further members are those of the route.
type stored struct {
	Bucket     string                   `json:"bucket,omitzero"`
	Stream     string                   `json:"stream,omitzero"`
	Message    string                   `json:"message,omitzero"`
	Scope      schemas.Scope            `json:"scope"`
	Entry      string                   `json:"entry"`
	Sequence   uint64                   `json:"sequence"`
	Revision   uint64                   `json:"revision"`
	Event      string                   `json:"event"`
	Superseded bool                     `json:"superseded,omitzero"`
	Warnings   []string                 `json:"warnings,omitempty"`
	Answer     map[string]schemas.Value `json:",embed"`
}

// answerNames are the members that a route's answer may not set.
func answerNames() []string {
	return []string{"bucket", "stream", "message", "scope", "entry", "sequence", "revision", "event", "superseded", "warnings"}
}

// accepted answers for a batch.
type accepted struct {
	Message string `json:"message"`
	Bucket  string `json:"bucket"`
	Stream  string `json:"stream"`
	Results []any  `json:"results"`
}

// publish stores the events and answers. Of a batch whose events were not all
// stored each result is told; sending it again does no harm.
func (h *Handler) publish(w http.ResponseWriter, rec *record, messages []message, s *sender, batch bool, route *route) {
	results, errs := h.send(messages, s)
	var worst error
	for i, err := range errs {
		switch r := results[i]; {
		case err != nil:
			rec.outcomes[failure(err)]++
			if worst == nil || statusOf(err) > statusOf(worst) {
				worst = err
			}
		case r.Superseded:
			rec.outcomes[superseded]++
		case r.Changed:
			rec.outcomes[written]++
		default:
			rec.outcomes[unchanged]++
		}
	}
	answers := make([]any, len(messages))
	for i, m := range messages {
		if errs[i] != nil {
			answers[i] = map[string]any{"event": m.event.ID, "scope": m.event.Scope, "entry": m.event.Entry, "status": statusOf(errs[i]), "detail": detail(errs[i])}
			continue
		}
		answers[i] = stored{
			Scope: m.event.Scope, Entry: m.event.Entry, Event: m.event.ID, Sequence: results[i].Revision, Revision: results[i].Revision,
			Superseded: results[i].Superseded, Warnings: results[i].Warnings, Answer: m.answer,
		}
	}
	if worst != nil {
		if !batch {
			answers = nil
		}
		h.fail(w, rec, worst, answers)
		return
	}
	text := "accepted"
	if route != nil && route.Message != "" {
		text = route.Message
	}
	rec.status = http.StatusAccepted
	if batch {
		write(w, rec.status, jsonType, accepted{Message: text, Bucket: h.cfg.Bucket, Stream: h.cfg.Stream, Results: answers})
		return
	}
	one, _ := answers[0].(stored) // no error, so it is one
	one.Bucket, one.Stream, one.Message = h.cfg.Bucket, h.cfg.Stream, text
	write(w, rec.status, jsonType, one)
}

func failure(err error) outcome {
	if statusOf(err) < http.StatusInternalServerError {
		return refused
	}
	return failed
}

// send publishes all. It goes on when the sender has gone: what was begun is
// finished, so that its outcome is known to the log at least.
func (h *Handler) send(messages []message, s *sender) ([]publish.Result, []error) {
	ctx, cancel := context.WithTimeout(context.Background(), publishTime+time.Duration(len(messages)-1)*batchTime)
	defer cancel()
	results, errs := make([]publish.Result, len(messages)), make([]error, len(messages))
	if len(messages) == 1 {
		results[0], errs[0] = h.cfg.Publisher.Publish(ctx, messages[0].event, messages[0].options(s))
		return results, errs
	}
	var wg sync.WaitGroup
	slots := make(chan struct{}, parallel)
	for i, m := range messages {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			results[i], errs[i] = h.cfg.Publisher.Publish(ctx, m.event, m.options(s))
		})
	}
	wg.Wait()
	return results, errs
}

func (m message) options(s *sender) publish.Options {
	return publish.Options{Checked: true, Allow: s.mayTouch, IfRevision: m.ifRevision}
}
