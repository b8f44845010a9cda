package webhook_test

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/bellpull/bellpull/cmd/internal/config"
	"github.com/bellpull/bellpull/cmd/internal/natskv"
	"github.com/bellpull/bellpull/cmd/internal/natstest"
	"github.com/bellpull/bellpull/cmd/internal/publish"
	"github.com/bellpull/bellpull/cmd/internal/webhook"
	"github.com/bellpull/bellpull/schemas"
	"github.com/bellpull/bellpull/schemas/kinds"
)

const (
	token     = "bp_QGBTD7T4UG254OAYRWE3NW3QBL"
	hubSecret = "test-secret"
	hookKey   = "a key of the Standard Webhooks"
)

// settings are the gateway's in most tests. HASH, HUB and HOOK are set by
// [newRig].
const settings = `
gateway:
  senders:
    - name: shop
      auth: {bearer: ["env:HASH"]}
      kinds: [firewall_rule]
      scopes: ["group/*"]
    - name: forge
      auth: {github: ["env:HUB"]}
      kinds: ["*"]
      scopes: ["**"]
    - name: hooks
      auth: {standard_webhooks: ["env:HOOK"]}
      kinds: ["*"]
      scopes: ["group/**", "node/*"]
  routes:
    - path: /api/trigger-firewall-update
      kind: firewall_rule
      scope: "group/{targetGroup}"
      entry: "my_firewall::rules[{protocol}-{port}]"
      value: {port: "{port}", protocol: "{protocol}", action: "{action}"}
      id: "{metadata.correlationId}"
      source: "{metadata.source}"
      remove_when: {action: deny}
      message: firewall update accepted
      answer: {correlationId: "{metadata.correlationId}"}
      body:
        type: object
        required: [targetGroup, port, action, metadata]
        properties:
          targetGroup: {type: string, pattern: "^[a-zA-Z0-9_-]+$"}
          port: {type: integer, minimum: 1024, maximum: 65535}
          protocol: {enum: [tcp, udp], default: tcp}
          action: {enum: [allow, deny]}
          metadata:
            type: object
            required: [source, correlationId]
            properties: {source: {type: string}, correlationId: {type: string, format: uuid}}
    - path: /hook
      methods: [POST, DELETE]
      scope: group/web
      entry: "{key}"
      value: "{value}"
`

// rig is a gateway in front of a real bucket.
type rig struct {
	t       *testing.T
	nats    *natstest.Server
	bucket  *natskv.Bucket
	handler *webhook.Handler
	url     string
	log     *bytes.Buffer
}

// newRig starts a server with a bucket and a gateway with these settings.
func newRig(t *testing.T, text string) *rig {
	t.Helper()
	nats := natstest.Start(t)
	return newRigAt(t, text, nats, natstest.Bucket(t, nats))
}

func newRigAt(t *testing.T, text string, nats *natstest.Server, bucket *natskv.Bucket) *rig {
	t.Helper()
	t.Setenv("HASH", webhook.HashToken(token))
	t.Setenv("HUB", hubSecret)
	t.Setenv("HOOK", "whsec_"+base64.StdEncoding.EncodeToString([]byte(hookKey)))
	r := &rig{t: t, nats: nats, bucket: bucket, log: &bytes.Buffer{}}
	cfg := r.config(text, bucket)
	var err error
	if r.handler, err = webhook.New(cfg); err != nil {
		t.Fatalf("webhook.New: %v", err)
	}
	r.serve(r.handler)
	return r
}

// serve lets a handler take the rig's requests from now on.
func (r *rig) serve(h *webhook.Handler) {
	r.t.Helper()
	srv := httptest.NewServer(h)
	r.t.Cleanup(srv.Close)
	r.handler, r.url = h, srv.URL
}

func (r *rig) config(text string, bucket publish.Bucket) webhook.Config {
	r.t.Helper()
	file := filepath.Join(r.t.TempDir(), "bellpull.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		r.t.Fatal(err)
	}
	cfg, err := config.Load(file)
	if err != nil {
		r.t.Fatal(err)
	}
	set, err := kinds.Load(cfg.Gateway.Kinds)
	if err != nil {
		r.t.Fatal(err)
	}
	return webhook.Config{
		Gateway: cfg.Gateway, Kinds: set, Publisher: publish.New(publish.Config{Bucket: bucket, Kinds: set}),
		Bucket: "desired", Stream: "KV_desired", Ready: func() error { return nil },
		Metrics: webhook.NewMetrics("test", func() bool { return true }),
		Logger:  hclog.New(&hclog.LoggerOptions{Output: r.log, Level: hclog.Trace}),
	}
}

// reply is what came back.
type reply struct {
	status int
	header http.Header
	body   string
	json   map[string]any
}

// send posts a request; header lines are "Name: value".
func (r *rig) send(method, path string, body []byte, header ...string) reply {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), time.Minute)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, r.url+path, bytes.NewReader(body))
	if err != nil {
		r.t.Fatal(err)
	}
	for _, line := range header {
		name, value, _ := strings.Cut(line, ": ")
		req.Header.Add(name, value)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		r.t.Fatalf("%s %s: %v", method, path, err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		r.t.Fatalf("%s %s: %v", method, path, err)
	}
	out := reply{status: resp.StatusCode, header: resp.Header, body: string(text)}
	if len(text) > 0 && strings.Contains(resp.Header.Get("Content-Type"), "json") && json.Unmarshal(text, &out.json) != nil {
		r.t.Errorf("%s %s: the answer is no JSON object: %s", method, path, text)
	}
	return out
}

// The headers of a request.
const (
	asJSON       = "Content-Type: application/json"
	asEvent      = "Content-Type: application/cloudevents+json"
	asBatch      = "Content-Type: application/cloudevents-batch+json"
	byToken      = "Authorization: Bearer " + token
	founding     = "/api/trigger-firewall-update"
	correlation  = "6f9619ff-8b86-d011-b42d-00c04fc964ff"
	correlation2 = "7f9619ff-8b86-d011-b42d-00c04fc964ff"
)

// hub signs as GitHub does.
func hub(body []byte) string {
	mac := hmac.New(sha256.New, []byte(hubSecret))
	mac.Write(body)
	return "X-Hub-Signature-256: sha256=" + hex.EncodeToString(mac.Sum(nil))
}

// hook signs as Standard Webhooks do.
func hook(id string, at time.Time, body []byte) []string {
	stamp := strconv.FormatInt(at.Unix(), 10)
	mac := hmac.New(sha256.New, []byte(hookKey))
	fmt.Fprintf(mac, "%s.%s.%s", id, stamp, body)
	return []string{
		"webhook-id: " + id, "webhook-timestamp: " + stamp,
		"webhook-signature: v1,AAAA v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil)),
	}
}

func (r *rig) want(got reply, status int, words ...string) {
	r.t.Helper()
	if got.status != status {
		r.t.Fatalf("status %d, want %d: %s", got.status, status, got.body)
	}
	if status >= 400 && (got.header.Get("Content-Type") != "application/problem+json" || got.json["status"] != float64(status) || got.json["title"] == "") {
		r.t.Errorf("no problem of RFC 9457: %v %s", got.header, got.body)
	}
	for _, word := range words {
		if !strings.Contains(got.body, word) {
			r.t.Errorf("answer %s, want it to hold %s", got.body, word)
		}
	}
}

// document is what stands in a scope.
func (r *rig) document(scope schemas.Scope) schemas.ScopeReading {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), time.Minute)
	defer cancel()
	reading, err := r.bucket.Read(ctx, []schemas.Scope{scope})
	if err != nil || reading.Scopes[0].Err != nil {
		r.t.Fatalf("read %s: %v %v", scope, err, reading.Scopes)
	}
	return reading.Scopes[0]
}

// value is an entry's value, "" if there is none.
func (r *rig) value(scope schemas.Scope, entry string) schemas.Value {
	r.t.Helper()
	return r.document(scope).Document.Entries[entry].Value
}

func event(attributes string) []byte {
	return fmt.Appendf(nil, `{"specversion":"1.0","type":"bellpull.set","id":"1","source":"test","time":%q,"subject":"group/web","entry":"x"%s}`,
		time.Now().UTC().Format(time.RFC3339Nano), attributes)
}
