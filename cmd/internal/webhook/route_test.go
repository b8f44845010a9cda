package webhook_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bellpull/bellpull/cmd/internal/config"
	"github.com/bellpull/bellpull/cmd/internal/webhook"
	"github.com/bellpull/bellpull/schemas"
	"github.com/bellpull/bellpull/schemas/kinds"
)

// The founding webhook, in full.
func TestFirewallUpdate(t *testing.T) {
	r := newRig(t, settings)
	allow := fmt.Appendf(nil, `{"targetGroup":"web","port":8443,"action":"allow","metadata":{"source":"shop/deploy","correlationId":%q}}`, correlation)
	got := r.send("POST", founding, allow, byToken, asJSON)
	r.want(got, 202)
	for name, want := range map[string]any{
		"message": "firewall update accepted", "stream": "KV_desired", "bucket": "desired", "correlationId": correlation,
		"scope": "group/web", "entry": "my_firewall::rules[tcp-8443]", "event": correlation,
	} {
		if got.json[name] != want {
			t.Errorf("%s = %v, want %v", name, got.json[name], want)
		}
	}
	stands := r.document("group/web")
	e := stands.Document.Entries["my_firewall::rules[tcp-8443]"]
	if e.Value != `{"action":"allow","port":8443,"protocol":"tcp"}` || e.Kind != "firewall_rule" || e.Source != "shop/deploy" || e.Event != correlation {
		t.Errorf("stored %+v", e)
	}
	if got.json["sequence"] != float64(stands.Revision) || got.json["revision"] != float64(stands.Revision) {
		t.Errorf("sequence %v, want %d", got.json["sequence"], stands.Revision)
	}
	// An honest retry is answered as the first was, and writes nothing.
	again := r.send("POST", founding, allow, byToken, asJSON)
	if r.want(again, 202); again.body != got.body || r.document("group/web").Revision != stands.Revision {
		t.Errorf("again: %s, want %s", again.body, got.body)
	}
	// deny closes what allow opened.
	deny := strings.NewReplacer(`"allow"`, `"deny"`, correlation, correlation2).Replace(string(allow))
	r.want(r.send("POST", founding, []byte(deny), byToken, asJSON), 202, correlation2)
	if doc := r.document("group/web").Document; len(doc.Entries) != 0 || doc.Removed["my_firewall::rules[tcp-8443]"].Event != correlation2 {
		t.Errorf("after deny: %+v", doc)
	}
	// The same number, written otherwise, is no other port.
	for from, want := range map[string]int{"8443.0": 202, "8.443e3": 400} {
		third := strings.NewReplacer("8443", from, correlation2, "8f9619ff-8b86-d011-b42d-00c04fc964ff").Replace(deny)
		if got := r.send("POST", founding, []byte(third), byToken, asJSON); got.status != want || want == 202 && got.json["entry"] != "my_firewall::rules[tcp-8443]" {
			t.Errorf("port %s: %d %s, want %d", from, got.status, got.body, want)
		}
	}

	got = r.send("POST", founding, []byte(`{"targetGroup":"we/b","port":80,"protocol":"icmp","metadata":{"source":1,"correlationId":"x"}}`), byToken, asJSON)
	r.want(got, 400)
	var places []string
	for _, e := range got.json["errors"].([]any) {
		places = append(places, e.(map[string]any)["pointer"].(string))
	}
	if want := "[/action /metadata/correlationId /metadata/source /port /protocol /targetGroup]"; fmt.Sprint(places) != want {
		t.Errorf("faults at %v, want %s", places, want)
	}
	for _, method := range []string{"GET", "PUT", "DELETE", "HEAD", "OPTIONS", "PATCH"} {
		if got := r.send(method, founding, allow, byToken, asJSON); got.status != 405 || got.header.Get("Allow") != "POST" {
			t.Errorf("%s: %d, Allow %q; want 405 and POST", method, got.status, got.header.Get("Allow"))
		}
	}
}

func TestRouteMapsWhatTheBodySays(t *testing.T) {
	r := newRig(t, `
gateway:
  senders: [{name: shop, auth: {bearer: ["env:HASH"]}, kinds: ["*"], scopes: ["**"], cap: {splay: 10s}}]
  routes:
    - path: /all
      scope: "dc/{dc}/group"
      entry: "app::{name}"
      value: {whole: "{data}", text: "port {data.port} of {name}", number: 1.5, "null": null, list: ["{items.1}", ""]}
      time: "{at}"
      ttl: "{ttl}"
      sensitive: true
      run: {trigger: "{when}", splay: 5s, tags: ["app_{name}"], noop: true}
      cap: {ttl: 1h}
`)
	at := time.Now().UTC().Truncate(time.Second)
	body := fmt.Sprintf(`{"dc":"a","name":"crm","data":{"port":12345678901234567890,"x":[1.0]},"items":[1,{"b":2}],"at":%q,"ttl":"3h","when":"now"}`, at.Format(time.RFC3339))
	r.want(r.send("POST", "/all", []byte(body), byToken, asJSON), 202)
	e := r.document("dc/a/group").Document.Entries["app::crm"]
	want := `{"list":[{"b":2},""],"null":null,"number":1.5,"text":"port 12345678901234567890 of crm","whole":{"port":12345678901234567890,"x":[1.0]}}`
	if string(e.Value) != want {
		t.Errorf("value %s, want %s", e.Value, want)
	}
	run := schemas.RunPolicy{Trigger: "now", Splay: 10 * time.Second, Tags: []string{"app_crm"}, Noop: true}
	if !e.Time.Equal(at) || !e.Expires.Equal(at.Add(time.Hour)) || !e.Sensitive || !e.Run.Equal(run) || e.Source != "shop" || !strings.HasPrefix(e.Event, "sha256:") {
		t.Errorf("entry %+v", e)
	}
	for _, test := range []struct{ name, from, to, want string }{
		{"another level", `"dc":"a"`, `"dc":"a/b"`, `{"pointer":"/dc","detail":"must be one segment`},
		{"up", `"dc":"a"`, `"dc":".."`, `{"pointer":"/dc","detail":"has the segment`},
		{"empty", `"dc":"a"`, `"dc":""`, `"/dc"`},
		{"missing", `"dc":"a",`, ``, `{"pointer":"/dc","detail":"is missing"}`},
		{"null", `"dc":"a"`, `"dc":null`, `"/dc"`},
		{"a member of another hash", `"crm"`, `"crm][x"`, `{"pointer":"/name"`},
		{"time", at.Format(time.RFC3339), "yesterday", `{"pointer":"/at","detail":"must be an RFC 3339 time`},
		{"ttl", `"3h"`, `"soon"`, `{"pointer":"/ttl","detail":"must be a duration`},
		{"trigger", `"now"`, `"later"`, `{"pointer":"/when","detail":"must be \"now\" or \"next\"`},
		{"list index", `[1,{"b":2}]`, `[1]`, `{"pointer":"/items/1","detail":"is missing"}`},
		{"a BOM", `{"dc"`, "\ufeff" + `{"dc"`, "no valid JSON"},
		{"twice", `{"dc"`, `{"dc":"b","dc"`, `{"pointer":"/dc","detail":"stands twice`}, // SCHEMA-02
	} {
		t.Run(test.name, func(t *testing.T) {
			rr := *r
			rr.t = t
			rr.want(rr.send("POST", "/all", []byte(strings.Replace(body, test.from, test.to, 1)), byToken, asJSON), 400, test.want)
		})
	}
	if revision := r.document("dc/a/group").Revision; revision != 2 {
		t.Errorf("revision %d: something bad was written", revision)
	}
}

func TestRouteDeletes(t *testing.T) {
	r := newRig(t, settings)
	body := []byte(`{"key":"app::a","value":[80,443]}`)
	r.want(r.send("POST", "/hook", body, hub(body), asJSON), 202)
	r.want(r.send("DELETE", "/hook", body, hub(body), asJSON), 202)
	if got := r.value("group/web", "app::a"); got != "" {
		t.Errorf("after DELETE: %s", got)
	}
	if got := r.send("GET", "/hook", nil); got.header.Get("Allow") != "POST, DELETE" {
		t.Errorf("Allow %q", got.header.Get("Allow"))
	}
}

func TestBadSettingsAreNamed(t *testing.T) {
	t.Setenv("HASH", webhook.HashToken(token))
	t.Setenv("EMPTY", "")
	t.Setenv("WEAK", "plain-password")
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte("\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	const ok = `senders: [{name: a, auth: {bearer: ["env:HASH"]}, kinds: ["*"], scopes: ["**"]}]`
	for _, test := range []struct{ name, text, want string }{
		{"no secret set", `senders: [{name: a, auth: {github: ["env:EMPTY"]}, kinds: ["*"], scopes: ["**"]}]`, "gateway.senders[0].auth.github[0]: env:EMPTY: is empty or not set"},
		{"empty secret file", `senders: [{name: a, auth: {github: ["file:` + secret + `"]}, kinds: ["*"], scopes: ["**"]}]`, "is empty or not set"},
		{"a secret in the settings", `senders: [{name: a, auth: {github: [hunter2]}, kinds: ["*"], scopes: ["**"]}]`, "must be env:NAME or file:PATH"},
		{"a plain token", `senders: [{name: a, auth: {bearer: ["env:WEAK"]}, kinds: ["*"], scopes: ["**"]}]`, "auth.bearer[0]: must hold hashes"},
		{"no base64", `senders: [{name: a, auth: {standard_webhooks: ["env:WEAK"]}, kinds: ["*"], scopes: ["**"]}]`, "must hold base64"},
		{"no proof", `senders: [{name: a, kinds: ["*"], scopes: ["**"]}]`, "gateway.senders[0].auth: is empty"},
		{"no rights", `senders: [{name: a, auth: {bearer: ["env:HASH"]}}]`, "gateway.senders[0].kinds: is empty"},
		{"pattern", `senders: [{name: a, auth: {bearer: ["env:HASH"]}, kinds: ["*"], scopes: ["["]}]`, "gateway.senders[0].scopes[0]"},
		{"same name", `senders: [{name: a, auth: {bearer: ["env:HASH"]}, kinds: ["*"], scopes: ["**"]}, {name: a}]`, "gateway.senders[1].name"},
		{"own path", ok + "\n  routes: [{path: /healthz, scope: a, entry: b, value: 1}]", "gateway.routes[0].path: is one of the gateway's own"},
		{"path twice", ok + "\n  routes: [{path: /a, scope: a, entry: b, value: 1}, {path: /a, scope: a, entry: b, value: 1}]", "gateway.routes[1].path"},
		{"kind", ok + "\n  routes: [{path: /a, scope: a, entry: b, value: 1, kind: nothing}]", "gateway.routes[0].kind: there is no kind"},
		{"scope", ok + "\n  routes: [{path: /a, scope: 'a//{x}', entry: b, value: 1}]", "gateway.routes[0].scope: "},
		{"open brace", ok + "\n  routes: [{path: /a, scope: 'a/{x', entry: b, value: 1}]", "stands alone"},
		{"entry", ok + "\n  routes: [{path: /a, scope: a, entry: 'b[]', value: 1}]", "gateway.routes[0].entry: "},
		{"body file", ok + "\n  routes: [{path: /a, scope: a, entry: b, value: 1, body: ../x.schema.json}]", "gateway.routes[0].body: "},
		{"body schema", ok + "\n  routes: [{path: /a, scope: a, entry: b, value: 1, body: {type: nothing}}]", "gateway.routes[0].body: "},
		{"sender", ok + "\n  routes: [{path: /a, scope: a, entry: b, value: 1, senders: [b]}]", "there is no sender"},
		{"answer", ok + "\n  routes: [{path: /a, scope: a, entry: b, value: 1, answer: {stream: x}}]", "gateway.routes[0].answer.stream"},
	} {
		t.Run(test.name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "bellpull.yaml")
			if err := os.WriteFile(file, []byte("gateway:\n  "+test.text+"\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			cfg, err := config.Load(file)
			if err != nil {
				t.Fatal(err)
			}
			set, err := kinds.Load("")
			if err != nil {
				t.Fatal(err)
			}
			_, err = webhook.New(webhook.Config{Gateway: cfg.Gateway, Kinds: set})
			if !errors.Is(err, schemas.ErrInvalid) || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want ErrInvalid with %q", err, test.want)
			}
			if err != nil && (strings.Contains(err.Error(), "plain-password") || strings.Contains(err.Error(), "hunter2")) {
				t.Errorf("%v shows a secret", err)
			}
		})
	}
}
