package webhook_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bellpull/bellpull/cmd/internal/publish"
	"github.com/bellpull/bellpull/cmd/internal/webhook"
)

// What a kind says of its entries holds for events too: ttl, run policy, secrecy,
// scopes. A cap counts after it.
func TestKindCompletesEvents(t *testing.T) {
	dir := t.TempDir()
	write := func(name, schema string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name+".schema.json"), []byte(schema), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("ban", `{"type": "string", "x-bellpull": {"ttl": "20m", "run": {"trigger": "next"}, "sensitive": true, "scopes": ["group/*"]}}`)
	write("host", `{"type": "object", "properties": {"listen": {"format": "ipv4"}, "since": {"format": "date-time"}, "host": {"format": "hostname"}, "mail": {"format": "email"}}}`)
	r := newRig(t, `
gateway:
  kinds: `+dir+`
  senders: [{name: forge, auth: {github: ["env:HUB"]}, kinds: [ban, bad, host], scopes: ["**"], cap: {ttl: 1h}}]
`)
	send := func(body []byte) reply { return r.send("POST", "/v1/events", body, asEvent, hub(body)) }
	r.want(send(event(`,"kind":"ban","data":"192.0.2.1"`)), 202)
	e := r.document("group/web").Document.Entries["x"]
	if !e.Expires.Equal(e.Time.Add(20*time.Minute)) || e.Run.Trigger != "next" || !e.Sensitive {
		t.Errorf("stored %+v", e)
	}
	body := []byte(strings.Replace(string(event(`,"kind":"ban","data":"192.0.2.1"`)), "group/web", "node/a", 1))
	r.want(send(body), 400, `{"pointer":"/subject","detail":"node/a is not allowed for kind ban; allowed are group/*"}`)
	// SCHEMA-01: "format" really rejects, and every place is named.
	good := event(`,"kind":"host","data":{"listen":"192.0.2.10","since":"2026-12-01T00:00:00Z","host":"web01.example.test","mail":"ops@example.test"}`)
	r.want(send([]byte(strings.Replace(string(good), `"id":"1"`, `"id":"good"`, 1))), 202)
	r.want(send(event(`,"kind":"host","data":{"listen":"1.1.1.1.1","since":"someinvalid datetime","host":"-bad-.example","mail":"nobody"}`)), 400,
		`"/data/listen"`, `"/data/since"`, `"/data/host"`, `"/data/mail"`)
	r.want(send(event(`,"kind":"ban","data":1`)), 400, `{"pointer":"/data","detail":"must be a string, not a number"}`)

	// SCHEMA-05: a kind that is bad since a reload, and was not there before, is
	// refused as the gateway's own trouble, never skipped.
	write("bad", `{"pattern": "(?!x)"}`)
	cfg := r.config("gateway:\n  senders: [{name: forge, auth: {github: [\"env:HUB\"]}, kinds: [ban, bad], scopes: [\"**\"]}]\n", r.bucket)
	set, err := cfg.Kinds.Reload(dir)
	if err == nil || !strings.Contains(err.Error(), "bad.schema.json") {
		t.Fatalf("reload: %v", err)
	}
	cfg.Kinds, cfg.Publisher = set, publish.New(publish.Config{Bucket: r.bucket, Kinds: set})
	h, err := webhook.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	r.serve(h)
	r.want(send(event(`,"kind":"bad","data":"text"`)), 503, "kind cannot be used at the moment")
}
