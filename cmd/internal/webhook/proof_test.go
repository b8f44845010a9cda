package webhook_test

import (
	"bytes"
	"compress/gzip"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/bellpull/bellpull/schemas"
)

// GATE-01: a ping and odd bodies get a clean answer, and publish nothing.
func TestGATE01_OddBodies(t *testing.T) {
	r := newRig(t, settings)
	ping := `{"note":"set-up check","hook_id":101,"hook":{"type":"Repository","events":["push"]},"repository":{"full_name":"example/control"}}`
	for _, body := range []string{ping, "null", "{}", "[]", `"x"`, ""} {
		b := []byte(body)
		r.want(r.send("POST", "/hook", b, hub(b), asJSON), 400)
		r.want(r.send("POST", founding, b, byToken, asJSON), 400)
		for _, contentType := range []string{asEvent, asBatch, asJSON} {
			r.want(r.send("POST", "/v1/events", b, hub(b), contentType), 400)
		}
	}
	for _, method := range []string{"GET", "PUT", "HEAD"} {
		for _, path := range []string{"/hook", "/v1/events"} {
			if got := r.send(method, path, nil); got.status != 405 || !strings.HasPrefix(got.header.Get("Allow"), "POST") {
				t.Errorf("%s %s: %d, Allow %q", method, path, got.status, got.header.Get("Allow"))
			}
		}
	}
	if got := r.send("POST", "/hook", []byte(ping), hub([]byte(ping)), asJSON, "X-GitHub-Event: ping"); got.status != 200 || !strings.Contains(got.body, "pong") {
		t.Errorf("a ping of GitHub: %d %s, want 200", got.status, got.body)
	}
	r.want(r.send("POST", "/nowhere", nil), 404)
	if rev := r.document("group/web").Revision; rev != 0 {
		t.Errorf("revision %d: something was published", rev)
	}
}

// GATE-02: the signature is checked over the bytes received.
func TestGATE02_SignatureOverRawBytes(t *testing.T) {
	r := newRig(t, settings)
	const (
		raw             = "{ \"key\" : \"app::greeting\",\r\n  \"value\":  {\"n\":1.0, \"s\":\"a\\u2028b\", \"z\":1, \"a\":2 } }\n"
		reserialised    = `{"key":"app::greeting","value":{"n":1.0,"s":"a\u2028b","z":1,"a":2}}`
		overRaw         = "3d31b9bc995c4a4b77cfb00bca674d54204cc0e3d881ac7c91a831cc5fb373d9"
		overReserialize = "c91ed0309313e23666bbef247bd3815bff3895b9e55a1c98d0cfb3abba86047a"
		name            = "X-Hub-Signature-256: "
	)
	for _, test := range []struct {
		name, body string
		header     []string
		want       int
	}{
		{"re-serialised signature", raw, []string{name + "sha256=" + overReserialize}, 401},
		{"re-serialised body", reserialised, []string{name + "sha256=" + overRaw}, 401},
		{"no header", raw, nil, 401},
		{"empty header", raw, []string{name}, 401},
		{"empty digest", raw, []string{name + "sha256="}, 401},
		{"two headers", raw, []string{name + "sha256=" + overRaw, name + "sha256=" + overRaw}, 401},
		{"two sorts", raw, []string{name + "sha256=" + overRaw, byToken}, 401},
		{"no scheme", raw, []string{name + overRaw}, 401},
		{"SHA-1", raw, []string{"X-Hub-Signature: sha1=0000"}, 401},
		{"wrong token", raw, []string{"Authorization: Bearer x"}, 401},
		{"no token", raw, []string{"Authorization: Bearer "}, 401},
		{"basic", raw, []string{"Authorization: Basic eDp5"}, 401},
		{"right", raw, []string{name + "sha256=" + overRaw}, 202},
		{"upper-case digits", raw, []string{name + "sha256=" + strings.ToUpper(overRaw)}, 202},
	} {
		t.Run(test.name, func(t *testing.T) {
			rr := *r
			rr.t = t
			got := rr.send("POST", "/hook", []byte(test.body), append(test.header, asJSON)...)
			if rr.want(got, test.want); test.want == 401 && got.json["detail"] != "nothing in the request proves a known sender" {
				t.Errorf("detail %q", got.json["detail"])
			}
			if test.want == 401 && rr.document("group/web").Revision != 0 {
				t.Error("something was published")
			}
		})
	}
	if got := r.value("group/web", "app::greeting"); got != "{\"a\":2,\"n\":1.0,\"s\":\"a\u2028b\",\"z\":1}" {
		t.Errorf("stored %s", got)
	}
}

// GATE-04: the same JSON under different content types and encodings.
func TestGATE04_ContentTypes(t *testing.T) {
	r := newRig(t, settings)
	body := []byte(`{"key":"app::ports","value":[80,443]}`)
	var zipped bytes.Buffer
	z := gzip.NewWriter(&zipped)
	if _, err := z.Write(body); err != nil || z.Close() != nil {
		t.Fatal(err)
	}
	form := []byte("payload=" + url.QueryEscape(string(body)))
	for _, test := range []struct {
		name   string
		body   []byte
		header []string
		want   int
	}{
		{"cloudevents", body, []string{asEvent}, 415},
		{"text", body, []string{"Content-Type: text/plain; charset=UTF-8"}, 415},
		{"form", form, []string{"Content-Type: application/x-www-form-urlencoded"}, 415},
		{"none", body, nil, 415},
		{"odd charset", body, []string{"Content-Type: application/json; charset=utf-16"}, 415},
		{"gzip", zipped.Bytes(), []string{asJSON, "Content-Encoding: gzip"}, 415},
		{"byte order mark", append([]byte("\xef\xbb\xbf"), body...), []string{asJSON}, 400},
		{"json", body, []string{asJSON}, 202},
		{"charset", body, []string{"Content-Type: application/json; charset=utf-8"}, 202},
	} {
		t.Run(test.name, func(t *testing.T) {
			rr := *r
			rr.t = t
			rr.want(rr.send("POST", "/hook", test.body, append(test.header, hub(test.body))...), test.want)
			if stands := rr.document("group/web"); test.want != 202 && stands.Revision != 0 {
				t.Errorf("published %+v", stands.Document)
			}
		})
	}
	if got := r.value("group/web", "app::ports"); got != "[80,443]" {
		t.Errorf("stored %s", got)
	}
}

// GATE-05: captured requests cannot be replayed, honest retries are harmless.
func TestGATE05_Replays(t *testing.T) {
	r := newRig(t, settings)
	a, b := []byte(`{"key":"k","value":"A"}`), []byte(`{"key":"k","value":"B"}`)
	now := time.Now()
	send := func(body []byte, header []string) reply {
		return r.send("POST", "/hook", body, append(header, asJSON)...)
	}
	first := send(a, hook("a", now, a))
	r.want(first, 202)
	if again := send(a, hook("a", now, a)); again.status != 202 || again.body != first.body {
		t.Errorf("an identical delivery: %d %s, want %s", again.status, again.body, first.body)
	}
	r.want(send(b, hook("b", now, b)), 202)
	after := r.document("group/web").Revision
	inside := send(a, hook("a", now.Add(time.Minute), a))
	if r.want(inside, 202); r.document("group/web").Revision != after {
		t.Error("a replay inside the window made a revision")
	}
	unstamped := hook("a", now, a)
	for name, header := range map[string][]string{
		"stale": hook("a", now.Add(-6*time.Minute), a), "future": hook("a", now.Add(6*time.Minute), a),
		"no timestamp":    {unstamped[0], unstamped[2]},
		"another id":      {"webhook-id: z", unstamped[1], unstamped[2]},
		"another time":    {unstamped[0], "webhook-timestamp: 1", unstamped[2]},
		"two timestamps":  append([]string{"webhook-timestamp: 1"}, unstamped...),
		"an unsigned one": {unstamped[0], unstamped[1]},
	} {
		if got := send(a, header); got.status != 401 {
			t.Errorf("%s: %d %s, want 401", name, got.status, got.body)
		}
	}
	if got := r.value("group/web", "k"); got != `"B"` || r.document("group/web").Revision != after {
		t.Errorf("value %s at %d, want B at %d", got, r.document("group/web").Revision, after)
	}
}

// Secrets, tokens and signatures appear neither in the log nor in an answer.
func TestNoSecretIsShown(t *testing.T) {
	r := newRig(t, settings)
	body := []byte(`{"key":"k","value":"s3cret-value"}`)
	signature := strings.TrimPrefix(hub(body), "X-Hub-Signature-256: ")
	for _, header := range [][]string{{byToken}, {"X-Hub-Signature-256: " + signature}, {"X-Hub-Signature-256: " + signature + "0"}, hook("1", time.Now(), body)} {
		for _, path := range []string{"/hook", founding, "/v1/events", "/nowhere?token=" + token} {
			got := r.send("POST", path, body, append(header, asJSON)...)
			for _, secret := range []string{token, hubSecret, hookKey, signature, "s3cret-value"} {
				if strings.Contains(got.body, secret) {
					t.Errorf("%s: the answer shows %s: %s", path, secret, got.body)
				}
			}
		}
	}
	for _, secret := range []string{token, hubSecret, hookKey, signature, "s3cret-value"} {
		if strings.Contains(r.log.String(), secret) {
			t.Errorf("the log shows %s:\n%s", secret, r.log)
		}
	}
	if !strings.Contains(r.log.String(), "sender=forge") {
		t.Errorf("the log does not name the sender:\n%s", r.log)
	}
	if got := r.value("group/web", "k"); got != schemas.Value(`"s3cret-value"`) {
		t.Errorf("stored %s", got)
	}
}

// The figures name the senders: they are for this machine, and for who has a token.
func TestMetrics(t *testing.T) {
	r := newRig(t, settings)
	body := []byte(`{"key":"k","value":1}`)
	r.want(r.send("POST", "/hook", body, hub(body), asJSON), 202)
	for _, header := range [][]string{nil, {"X-Forwarded-For: 203.0.113.1", byToken}} {
		if got := r.send("GET", "/metrics", nil, header...); got.status != 200 ||
			!strings.Contains(got.body, `bellpull_gateway_events_total{outcome="written",sender="forge"} 1`) ||
			!strings.Contains(got.body, `bellpull_gateway_requests_total{code="202",route="/hook"} 1`) {
			t.Errorf("%v: %d %s", header, got.status, got.body)
		}
	}
	r.want(r.send("GET", "/metrics", nil, "X-Forwarded-For: 203.0.113.1"), 401)
}
