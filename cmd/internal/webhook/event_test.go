package webhook_test

import (
	"encoding/base64"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/bellpull/bellpull/schemas"
)

const hooksSettings = `
gateway:
  senders:
    - name: shop
      auth: {bearer: ["env:HASH"]}
      kinds: [firewall_rule, blocked_address]
      scopes: ["group/*"]
    - {name: forge, auth: {github: ["env:HUB"]}, kinds: ["*"], scopes: ["**"]}
`

func TestStructuredEvent(t *testing.T) {
	r := newRig(t, hooksSettings)
	send := func(body []byte) reply { return r.send("POST", "/v1/events", body, asEvent, hub(body)) }
	got := send(event(`,"kind":"blocked_address","ttl":"20m","trigger":"next","splay":"5m","tags":"a,b","noop":true,"sensitive":true,"traceparent":"00-x","data":{"address":"192.0.2.1"}`))
	r.want(got, 202, `"event":"1"`, `"scope":"group/web"`, `"entry":"x"`, `"message":"accepted"`)
	e := r.document("group/web").Document.Entries["x"]
	run := schemas.RunPolicy{Trigger: "next", Splay: 5 * time.Minute, Tags: []string{"a", "b"}, Noop: true}
	if e.Value != `{"address":"192.0.2.1"}` || e.Kind != "blocked_address" || !e.Expires.Equal(e.Time.Add(20*time.Minute)) || !e.Run.Equal(run) || !e.Sensitive || e.Source != "test" {
		t.Errorf("stored %+v", e)
	}
	for name, data := range map[string]string{
		"null": `null`, "exact digits": `12345678901234567890.10`, "empty text": `""`,
	} {
		body := []byte(strings.Replace(string(event(`,"data":`+data)), `"id":"1"`, fmt.Sprintf(`"id":%q`, name), 1))
		if r.want(send(body), 202); string(r.value("group/web", "x")) != data {
			t.Errorf("%s: stored %s", name, r.value("group/web", "x"))
		}
	}
	body := []byte(strings.Replace(string(event(`,"data_base64":"`+base64.StdEncoding.EncodeToString([]byte(`{"a": 1}`))+`"`)), `"id":"1"`, `"id":"b"`, 1))
	if r.want(send(body), 202); r.value("group/web", "x") != `{"a":1}` {
		t.Errorf("data_base64: stored %s", r.value("group/web", "x"))
	}
	body = []byte(strings.NewReplacer("bellpull.set", "bellpull.remove", `"id":"1"`, `"id":"r"`).Replace(string(event(``))))
	if r.want(send(body), 202); r.value("group/web", "x") != "" {
		t.Errorf("after bellpull.remove: %s", r.value("group/web", "x"))
	}
}

func TestBinaryEvent(t *testing.T) {
	r := newRig(t, hooksSettings)
	now := time.Now().UTC()
	body := []byte(`{"port":8443,"protocol":"tcp","action":"allow"}`)
	header := []string{
		byToken, "Content-Type: application/json; charset=utf-8", "ce-specversion: 1.0", "ce-type: bellpull.set", "ce-id: 1", "ce-source: test",
		"ce-time: " + now.Format(time.RFC3339Nano), "ce-subject: group/web", "ce-entry: my_firewall::rules%5Btcp-8443%5D", "ce-kind: firewall_rule",
	}
	r.want(r.send("POST", "/v1/events", body, header...), 202)
	if got := r.value("group/web", "my_firewall::rules[tcp-8443]"); got != `{"action":"allow","port":8443,"protocol":"tcp"}` {
		t.Errorf("stored %s", got)
	}
	r.want(r.send("POST", "/v1/events", body, append(header, "ce-id: 2")...), 400, `{"pointer":"/id","detail":"stands in several headers"}`)
	r.want(r.send("POST", "/v1/events", []byte(`{"port":1}`), header...), 400, `"/data/port"`, `"/data/protocol"`, `"/data/action"`)
}

// A batch is validated whole before anything is written.
func TestBatch(t *testing.T) {
	r := newRig(t, hooksSettings)
	var items []string
	for i := range 20 {
		items = append(items, strings.NewReplacer(`"id":"1"`, fmt.Sprintf(`"id":"%d"`, i), "group/web", fmt.Sprintf("group/%d", i%4), `"entry":"x"`, fmt.Sprintf(`"entry":"x%d"`, i)).
			Replace(string(event(`,"data":1`))))
	}
	send := func(items []string) reply {
		body := []byte("[" + strings.Join(items, ",") + "]")
		return r.send("POST", "/v1/events", body, asBatch, hub(body))
	}
	bad := append(append([]string(nil), items...), string(event(`,"kind":"firewall_rule","data":{"port":1}`)), `{"specversion":"1.0"}`, `7`)
	r.want(send(bad), 400, `"/21/subject"`, `"/22"`)
	r.want(send(bad[:21]), 400, `"/20/data/port"`, `"/20/data/action"`)
	if rev := r.document("group/0").Revision; rev != 0 {
		t.Fatalf("group/0 is at revision %d: a part of a bad batch was written", rev)
	}
	got := send(items)
	if r.want(got, 202); len(got.json["results"].([]any)) != 20 || got.json["stream"] != "KV_desired" {
		t.Errorf("answer %s", got.body)
	}
	for i := range 4 {
		if doc := r.document(schemas.Scope(fmt.Sprintf("group/%d", i))); len(doc.Document.Entries) != 5 {
			t.Errorf("group/%d: %d entries, want 5", i, len(doc.Document.Entries))
		}
	}
	r.want(send(nil), 400, "holds 0 events")
	r.want(send(make([]string, 0)), 400)
	r.want(r.send("POST", "/v1/events", []byte(`{}`), asBatch, hub([]byte(`{}`))), 400, "must be an array")
}

func TestEventFaults(t *testing.T) {
	r := newRig(t, hooksSettings)
	good := string(event(`,"data":1`))
	now := time.Now().UTC()
	for _, test := range []struct{ name, from, to, want string }{
		{"version", `"1.0"`, `"0.3"`, `{"pointer":"/specversion","detail":"must be 1.0"}`},
		{"type", "bellpull.set", "shop.order", `{"pointer":"/type"`},
		{"no time", `"time"`, `"then"`, `{"pointer":"/time","detail":"is missing"}`},
		{"odd time", `"time":"2`, `"time":"x2`, `{"pointer":"/time"`},
		{"scope", "group/web", "group//web", `{"pointer":"/subject"`},
		{"entry", `"entry":"x"`, `"entry":"x[]"`, `{"pointer":"/entry"`},
		{"no data", `,"data":1`, ``, `{"pointer":"/data","detail":"is missing`},
		{"ttl", `,"data"`, `,"ttl":"1d","data"`, `{"pointer":"/ttl"`},
		{"short ttl", `,"data"`, `,"ttl":"10ms","data"`, `{"pointer":"/ttl","detail":"must be at least 1s"}`},
		{"noop", `,"data"`, `,"noop":"perhaps","data"`, `{"pointer":"/noop"`},
		{"tag", `,"data"`, `,"tags":"a,,b","data"`, `{"pointer":"/tags/1"`},
		{"kind", `,"data"`, `,"kind":"nothing","data"`, `is not known`},
		{"not JSON", `,"data"`, `,"datacontenttype":"text/xml","data"`, `"/datacontenttype"`},
		{"twice", `"data":1`, `"data":1,"data":2`, `{"pointer":"/data","detail":"stands twice`},
		{"both", `"data":1`, `"data":1,"data_base64":"MQ=="`, `"/data_base64"`},
		{"wrong case", `"subject"`, `"Subject"`, `{"pointer":"/Subject"`}, // SCHEMA-02
		{"object", `"group/web"`, `{}`, `{"pointer":"/subject","detail":"must be a string"}`},
		{"ahead", now.Format(`"time":"2006`), now.AddDate(50, 0, 0).Format(`"time":"2006`), `ahead of this machine`},
		{"trailing", `:1}`, `:1}{}`, `no valid JSON`},
	} {
		t.Run(test.name, func(t *testing.T) {
			rr := *r
			rr.t = t
			body := []byte(strings.Replace(good, test.from, test.to, 1))
			if string(body) == good {
				t.Fatalf("%s is not in %s", test.from, good)
			}
			rr.want(rr.send("POST", "/v1/events", body, asEvent, hub(body)), 400, test.want)
		})
	}
	if rev := r.document("group/web").Revision; rev != 0 {
		t.Errorf("revision %d: something bad was written", rev)
	}
}

func TestRights(t *testing.T) {
	r := newRig(t, hooksSettings)
	rule := `,"kind":"firewall_rule","data":{"port":8443,"protocol":"tcp","action":"allow"}`
	send := func(body string) reply { return r.send("POST", "/v1/events", []byte(body), asEvent, byToken) }
	r.want(send(string(event(rule))), 202)
	r.want(send(strings.Replace(string(event(rule)), "group/web", "common", 1)), 403, "may not write in scope common")
	r.want(send(strings.Replace(string(event(rule)), "group/web", "group/a/b", 1)), 403)
	r.want(send(string(event(`,"data":1`))), 403, "firewall_rule, blocked_address")
	r.want(send(string(event(`,"kind":"app_pool","data":{"name":"a","size":1}`))), 403)
	// What another kind's entry says may be neither replaced nor removed.
	other := []byte(strings.Replace(string(event(`,"kind":"app_pool","data":{"name":"a","size":1}`)), `"entry":"x"`, `"entry":"pool"`, 1))
	r.want(r.send("POST", "/v1/events", other, asEvent, hub(other)), 202)
	before := r.document("group/web").Revision
	r.want(send(strings.NewReplacer(`"entry":"x"`, `"entry":"pool"`, `"id":"1"`, `"id":"2"`).Replace(string(event(rule)))), 403, "an entry of another kind stands there")
	r.want(send(strings.NewReplacer(`"entry":"x"`, `"entry":"pool"`, `"id":"1"`, `"id":"3"`, "bellpull.set", "bellpull.remove").Replace(string(event("")))), 403)
	// Of a batch nothing is written when one event is not allowed.
	batch := "[" + strings.Replace(string(event(rule)), `"id":"1"`, `"id":"4"`, 1) + "," + strings.Replace(string(event(rule)), "group/web", "common", 1) + "]"
	r.want(r.send("POST", "/v1/events", []byte(batch), asBatch, byToken), 403)
	if now := r.document("group/web").Revision; now != before {
		t.Errorf("revision %d, want %d: something was written that was not allowed", now, before)
	}
}

// A sender may be limited to names of entries; brackets stand for themselves.
func TestEntries(t *testing.T) {
	r := newRig(t, `
gateway:
  senders: [{name: shop, auth: {bearer: ["env:HASH"]}, kinds: ["*"], scopes: ["**"], entries: ["my_firewall::rules[*]", "app::*::port", motd]}]
`)
	for entry, want := range map[string]int{
		"my_firewall::rules[tcp-8443]": 202, "app::crm::port": 202, "app::a::b::port": 202, "motd": 202,
		"my_firewall::rules": 403, "my_firewall::rulest": 403, "app::port": 403, "motd2": 403, "x[motd]": 403, "lookup_options": 403,
	} {
		for _, kind := range []string{"bellpull.set", "bellpull.remove"} {
			data := `,"data":1`
			if kind == "bellpull.remove" {
				data = ""
			}
			body := strings.NewReplacer(`"entry":"x"`, fmt.Sprintf(`"entry":%q`, entry), "bellpull.set", kind, `"id":"1"`, fmt.Sprintf(`"id":%q`, kind)).Replace(string(event(data)))
			if got := r.send("POST", "/v1/events", []byte(body), asEvent, byToken); got.status != want {
				t.Errorf("%s %s: %d %s, want %d", kind, entry, got.status, got.body, want)
			}
		}
	}
}

func TestCapsAndRates(t *testing.T) {
	r := newRig(t, `
gateway:
  senders:
    - {name: shop, auth: {bearer: ["env:HASH"]}, kinds: ["*"], scopes: ["**"], rate: 3/h, cap: {ttl: 1h, splay: 1m, trigger: next, noop: true}}
    - {name: forge, auth: {github: ["env:HUB"]}, kinds: ["*"], scopes: ["**"]}
`)
	send := func(more string) reply {
		return r.send("POST", "/v1/events", event(more), asEvent, byToken)
	}
	r.want(send(`,"ttl":"10h","data":1`), 202)
	e := r.document("group/web").Document.Entries["x"]
	if !e.Expires.Equal(e.Time.Add(time.Hour)) || !e.Run.Equal(schemas.RunPolicy{Trigger: "next", Splay: time.Minute, Noop: true}) {
		t.Errorf("capped to %+v", e)
	}
	body := []byte("[" + string(event(`,"data":1`)) + "," + string(event(`,"data":1`)) + "," + string(event(`,"data":1`)) + "," + string(event(`,"data":1`)) + "]")
	r.want(r.send("POST", "/v1/events", body, asBatch, byToken), 400, "holds 4 events, the rate of sender shop takes 3 at once")
	r.want(send(`,"data":{"a":1}}`), 400) // counts too
	got := send(`,"data":2`)
	if r.want(got, 429, "too many events of sender shop"); got.header.Get("Retry-After") == "" {
		t.Error("429 without Retry-After")
	}
	other := event(`,"data":1`)
	r.want(r.send("POST", "/v1/events", []byte(strings.Replace(string(other), `"id":"1"`, `"id":"o"`, 1)), asEvent, hub([]byte(strings.Replace(string(other), `"id":"1"`, `"id":"o"`, 1)))), 202)
}

// SCHEMA-01 and SCHEMA-02: the gateway's verdict is that of the kinds.
func TestSCHEMA02_DuplicatesInTheValue(t *testing.T) {
	r := newRig(t, hooksSettings)
	for name, data := range map[string]string{
		"last ok":    `{"port":80,"port":8443,"protocol":"tcp","action":"allow"}`,
		"last bad":   `{"port":8443,"port":80,"protocol":"tcp","action":"allow"}`,
		"wrong case": `{"Port":8443,"protocol":"tcp","action":"allow"}`,
	} {
		want := `{"pointer":"/data/port"`
		if name == "wrong case" {
			want = `{"pointer":"/data/Port"`
		}
		r.want(r.send("POST", "/v1/events", event(`,"kind":"firewall_rule","data":`+data), asEvent, byToken), 400, want)
	}
}
