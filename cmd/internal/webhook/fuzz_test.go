package webhook_test

import (
	"bytes"
	"context"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/bellpull/bellpull/cmd/internal/config"
	"github.com/bellpull/bellpull/cmd/internal/publish"
	"github.com/bellpull/bellpull/cmd/internal/webhook"
	"github.com/bellpull/bellpull/schemas"
	"github.com/bellpull/bellpull/schemas/kinds"
)

// memory is a bucket of this process's own, for speed.
type memory struct {
	mu       sync.Mutex
	docs     map[schemas.Scope]schemas.Document
	revision map[schemas.Scope]uint64
}

func (m *memory) Read(_ context.Context, scopes []schemas.Scope) (schemas.Reading, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := schemas.Reading{Bucket: "b", At: time.Now()}
	for _, s := range scopes {
		out.Scopes = append(out.Scopes, schemas.ScopeReading{Scope: s, Revision: m.revision[s], Document: m.docs[s]})
	}
	return out, nil
}

func (m *memory) Put(_ context.Context, scope schemas.Scope, body []byte, _ uint64) (uint64, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, err := schemas.ParseDocument(body); err != nil {
		panic("a document was written that is none: " + err.Error())
	}
	m.docs, m.revision = map[schemas.Scope]schemas.Document{}, map[schemas.Scope]uint64{} // one at a time: a fuzzer makes many scopes
	m.revision[scope]++
	return m.revision[scope], nil
}

// FuzzRequest posts whatever comes to mind, rightly signed, so that it is read. No
// request may end in a panic, in a 5xx, or in a document that is none.
func FuzzRequest(f *testing.F) {
	f.Setenv("HASH", webhook.HashToken(token))
	set, err := kinds.Load("")
	if err != nil {
		f.Fatal(err)
	}
	text := strings.NewReplacer(`env:HUB`, `env:HASH`, `env:HOOK`, `env:KEY`).Replace(settings)
	f.Setenv("KEY", "whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA")
	f.Setenv("BELLPULL_CONFIG_YAML", text)
	cfg, err := config.Load("/dev/null")
	if err != nil {
		f.Fatal(err)
	}
	for i := range cfg.Gateway.Senders {
		cfg.Gateway.Senders[i].Rate = config.Rate{Events: 1_000_000, Per: time.Second}
		cfg.Gateway.Senders[i].Kinds, cfg.Gateway.Senders[i].Scopes = []string{"*"}, []string{"**"}
	}
	h, err := webhook.New(webhook.Config{
		Gateway: cfg.Gateway, Kinds: set, Publisher: publish.New(publish.Config{Bucket: &memory{}, Kinds: set}),
		Bucket: "desired", Stream: "KV_desired", Ready: func() error { return nil },
		Metrics: webhook.NewMetrics("fuzz", func() bool { return true }), Logger: hclog.NewNullLogger(),
	})
	if err != nil {
		f.Fatal(err)
	}
	paths := []string{founding, "/hook", "/v1/events"}
	types := []string{"application/json", "application/cloudevents+json", "application/cloudevents-batch+json"}
	f.Add(uint8(0), uint8(0), "", []byte(`{"targetGroup":"web","port":8443,"action":"allow","metadata":{"source":"s","correlationId":"6f9619ff-8b86-d011-b42d-00c04fc964ff"}}`))
	f.Add(uint8(1), uint8(0), "", []byte(`{"key":"a","value":[1e400,{"x":null}]}`))
	f.Add(uint8(2), uint8(1), "", event(`,"data":{"a":1},"ttl":"1h","tags":"a,b"`))
	f.Add(uint8(2), uint8(2), "", append(append([]byte("["), event(`,"data_base64":"MQ=="`)...), ']'))
	f.Add(uint8(2), uint8(0), "ce-specversion: 1.0\nce-type: bellpull.set\nce-id: 1\nce-source: a\nce-time: 2026-12-01T10:00:00Z\nce-subject: group/web\nce-entry: x%5By%5D", []byte("1"))
	f.Fuzz(func(t *testing.T, path, contentType uint8, header string, body []byte) {
		r := httptest.NewRequest("POST", paths[int(path)%len(paths)], bytes.NewReader(body))
		for line := range strings.Lines(header) {
			if name, value, ok := strings.Cut(strings.TrimSpace(line), ": "); ok {
				r.Header.Add(name, value)
			}
		}
		r.Header.Set("Content-Type", types[int(contentType)%len(types)])
		r.Header.Set("Authorization", "Bearer "+token)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code >= 500 {
			t.Errorf("%d %s", w.Code, w.Body)
		}
	})
}
