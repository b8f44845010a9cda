package gateway_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/bellpull/bellpull/cmd/internal/cli"
	"github.com/bellpull/bellpull/cmd/internal/gateway"
	"github.com/bellpull/bellpull/cmd/internal/natskv"
	"github.com/bellpull/bellpull/cmd/internal/natstest"
	"github.com/bellpull/bellpull/cmd/internal/webhook"
	"github.com/bellpull/bellpull/schemas"
)

// NATS away: 503 at once, never a hang, never a 202; back again, the next event is
// taken without a restart.
func TestOutage(t *testing.T) {
	nats := natstest.Start(t)
	natstest.Bucket(t, nats)
	p := start(t, nats.URL(), settings)
	if status, body := p.post("1", 1); status != 202 {
		t.Fatalf("%d %s", status, body)
	}
	nats.Stop()
	eventually(t, "the loss is noticed", func() bool { status, _ := p.get("/readyz"); return status == 503 })
	for i := range 3 {
		began := time.Now()
		if status, body := p.post("2", 2); status != 503 || time.Since(began) > 2*time.Second {
			t.Errorf("event %d in the outage: %d %s after %v", i, status, body, time.Since(began))
		}
	}
	if status, _ := p.get("/healthz"); status != 200 {
		t.Errorf("/healthz in an outage: %d, want 200: a restart would not help", status)
	}
	nats.Restart()
	eventually(t, "events are taken again", func() bool { status, _ := p.post("2", 2); return status == 202 })
	if got := value(t, natstest.Dial(t, natsAt(nats.URL())), "x"); got != "2" {
		t.Errorf("value %s", got)
	}
}

// A connection that died without a word, as that of a function that was frozen: a
// fresh one is made within the request.
func TestFreshConnectionWithinTheRequest(t *testing.T) {
	nats := natstest.Start(t)
	natstest.Bucket(t, nats)
	line := natstest.NewLine(t, nats)
	p := start(t, line.URL(), settings)
	if status, body := p.post("1", 1); status != 202 {
		t.Fatalf("%d %s", status, body)
	}
	// On a machine that is busy with other tests two seconds may be too little, once.
	var status int
	var body string
	for try := 0; try < 3 && status != 202; try++ {
		line.Strand()
		status, body = p.post(fmt.Sprintf("2-%d", try), 2)
	}
	if status != 202 {
		t.Errorf("over a dead connection: %d %s, want 202", status, body)
	}
	line.Silence()
	defer line.Resume()
	began := time.Now()
	if status, body := p.post("3", 3); status != 503 || time.Since(began) > 5*time.Second {
		t.Errorf("to a silent server: %d %s after %v, want 503", status, body, time.Since(began))
	}
}

// What was accepted before the end is finished, and nothing new is taken.
func TestGracefulShutdown(t *testing.T) {
	nats := natstest.Start(t)
	natstest.Bucket(t, nats)
	p := start(t, nats.URL(), settings)
	var wg sync.WaitGroup
	var mu sync.Mutex
	acked := map[string]bool{}
	stopped := make(chan struct{})
	for n := range 4 {
		wg.Go(func() {
			for i := 0; ; i++ {
				entry := fmt.Sprintf("e%d-%d", n, i)
				status, _ := p.send("POST", "/v1/events", "application/cloudevents+json", fmt.Sprintf(
					`{"specversion":"1.0","type":"bellpull.set","id":%q,"source":"t","time":%q,"subject":"group/web","entry":%[1]q,"data":1}`, entry, time.Now().UTC().Format(time.RFC3339Nano)))
				if status != 202 {
					return
				}
				mu.Lock()
				acked[entry] = true
				if len(acked) == 50 {
					close(stopped)
				}
				mu.Unlock()
			}
		})
	}
	<-stopped
	p.stop()
	if err := p.end(); err != nil {
		t.Errorf("ended with %v", err)
	}
	wg.Wait()
	b := natstest.Dial(t, natsAt(nats.URL()))
	for entry := range acked {
		if value(t, b, entry) == "" {
			t.Errorf("%s was acknowledged and is not stored", entry)
		}
	}
}

// SIGHUP: what is good is taken, what is bad leaves the old one in force and is
// named by /healthz.
func TestReload(t *testing.T) {
	nats := natstest.Start(t)
	natstest.Bucket(t, nats)
	p := start(t, nats.URL(), settings)
	hangup := func(wantNotes bool, note string) {
		t.Helper()
		before := strings.Count(p.log.String(), "reload")
		if err := syscall.Kill(os.Getpid(), syscall.SIGHUP); err != nil {
			t.Fatal(err)
		}
		eventually(t, "a reload", func() bool {
			_, body := p.get("/healthz")
			return strings.Count(p.log.String(), "reload") > before && strings.Contains(body, "notes") == wantNotes && strings.Contains(body, note)
		})
	}
	p.configure(nats.URL(), settings+"  routes: [{path: /new, scope: group/web, entry: x, value: 7}]\n")
	hangup(false, `"ok"`)
	if status, body := p.send("POST", "/new", "application/json", "{}"); status != 202 {
		t.Errorf("the new route: %d %s", status, body)
	}
	p.configure(nats.URL(), settings+"  routes: [{path: /other, scope: 'group//web', entry: x, value: 8}]\n")
	hangup(true, "gateway.routes[0].scope")
	if status, body := p.send("POST", "/new", "application/json", `{"a":1}`); status != 202 {
		t.Errorf("the old route: %d %s", status, body)
	}
	p.configure(nats.URL(), "gateway: {nonsense: 1}\n")
	hangup(true, "nonsense")
	// A token that was withdrawn counts no more.
	t.Setenv("HASH", webhook.HashToken("another"))
	p.configure(nats.URL(), settings)
	hangup(false, `"ok"`)
	if status, _ := p.post("9", 9); status != 401 {
		t.Errorf("with a token that was withdrawn: %d, want 401", status)
	}
}

// SCHEMA-05: a kind whose new schema is bad stays in force as it was, and /healthz
// names the place; the others are taken.
func TestSCHEMA05_ReloadedKinds(t *testing.T) {
	nats := natstest.Start(t)
	natstest.Bucket(t, nats)
	dir := t.TempDir()
	write := func(name, schema string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name+".schema.json"), []byte(schema), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("size", `{"type": "integer"}`)
	p := start(t, nats.URL(), settings+"  kinds: "+dir+"\n")
	n := 0
	set := func(kind, value string) int {
		n++
		status, _ := p.send("POST", "/v1/events", "application/cloudevents+json", fmt.Sprintf(
			`{"specversion":"1.0","type":"bellpull.set","id":"%d","source":"t","time":%q,"subject":"group/web","entry":"x","kind":%q,"data":%s}`, n, time.Now().UTC().Format(time.RFC3339Nano), kind, value))
		return status
	}
	for _, bad := range []string{`{"type": "string", "pattern": "^(?!aws:.*)$"}`, `{"type": "string", "pattern": "\\u"}`, `{`} {
		write("size", bad)
		write("other", `{"type": "boolean"}`)
		if err := syscall.Kill(os.Getpid(), syscall.SIGHUP); err != nil {
			t.Fatal(err)
		}
		eventually(t, "the bad kind is named", func() bool {
			_, body := p.get("/healthz")
			return strings.Contains(body, "size.schema.json") && set("other", "true") == 202
		})
		if good, wrong := set("size", "7"), set("size", `"text"`); good != 202 || wrong != 400 {
			t.Errorf("by the old schema: %d and %d, want 202 and 400", good, wrong)
		}
		write("size", `{"type": "integer"}`)
		write("other", `{"type": "null"}`)
		if err := syscall.Kill(os.Getpid(), syscall.SIGHUP); err != nil {
			t.Fatal(err)
		}
		eventually(t, "all is well", func() bool { _, body := p.get("/healthz"); return strings.Contains(body, `"ok"`) })
	}
}

// Duplicate and reordered deliveries of the same events through two gateways end
// in the same document, with the newest event.
func TestTwoGateways(t *testing.T) {
	nats := natstest.Start(t)
	b := natstest.Bucket(t, nats)
	gateways := []*process{start(t, nats.URL(), settings), start(t, nats.URL(), settings)}
	at := time.Now().UTC().Add(-time.Hour)
	const events = 30
	var wg sync.WaitGroup
	for n, p := range gateways {
		for i := range events {
			if n == 1 {
				i = events - 1 - i
			}
			wg.Go(func() {
				for range 2 {
					status, body := p.send("POST", "/v1/events", "application/cloudevents+json", fmt.Sprintf(
						`{"specversion":"1.0","type":"bellpull.set","id":"%d","source":"t","time":%q,"subject":"group/web","entry":"x","data":%[1]d}`, i, at.Add(time.Duration(i)*time.Second).Format(time.RFC3339)))
					if status != 202 {
						t.Errorf("event %d: %d %s", i, status, body)
					}
				}
			})
		}
	}
	wg.Wait()
	if got, want := value(t, b, "x"), schemas.Value(fmt.Sprint(events-1)); got != want {
		t.Errorf("value %s, want that of the newest event, %s", got, want)
	}
}

// A bucket that is full, and a document that would be: told, and nothing is
// accepted that is not stored.
func TestFull(t *testing.T) {
	nats := natstest.Start(t, func(o *server.Options) { o.JetStreamMaxStore = 3 << 20 })
	natstest.Bucket(t, nats)
	p := start(t, nats.URL(), settings+"  max_body: 1MiB\n")
	big := strings.Repeat("x", 800<<10)
	send := func(scope, entry string) (int, string) {
		return p.send("POST", "/v1/events", "application/cloudevents+json", fmt.Sprintf(
			`{"specversion":"1.0","type":"bellpull.set","id":"1","source":"t","time":%q,"subject":%q,"entry":%q,"data":%q}`, time.Now().UTC().Format(time.RFC3339Nano), scope, entry, big))
	}
	if status, body := send("group/a", "a"); status != 202 {
		t.Fatalf("%d %s", status, body)
	}
	if status, body := send("group/a", "b"); status != 400 || !strings.Contains(body, "at most 921600 are allowed") {
		t.Errorf("a document that is too large: %d %s", status, body)
	}
	status := 202
	var body string
	for i := 0; status == 202 && i < 10; i++ {
		status, body = send(fmt.Sprintf("group/n%d", i), "a")
	}
	if status != 503 {
		t.Errorf("a bucket that is full: %d %s, want 503", status, body)
	}
}

// Where there are only variables, as on Vercel.
func TestSettingsFromVariablesAlone(t *testing.T) {
	nats := natstest.Start(t)
	natstest.Bucket(t, nats)
	t.Setenv("BELLPULL_CONFIG_YAML", settings)
	t.Setenv("BELLPULL_NATS_SERVERS", "["+nats.URL()+"]")
	p := start(t, "nats://127.0.0.1:1", "")
	if status, body := p.post("1", 1); status != 202 {
		t.Errorf("%d %s", status, body)
	}
}

func TestBadStarts(t *testing.T) {
	t.Setenv("BELLPULL_CONFIG_YAML", "gateway: {senders: [{name: a, auth: {github: [env:NOTHING]}, kinds: [x], scopes: [y]}]}")
	err := gateway.Run(t.Context(), cli.Streams{Out: &bytes.Buffer{}, Err: &bytes.Buffer{}}, []string{"--config", "/dev/null"})
	if !errors.Is(err, schemas.ErrInvalid) || !strings.Contains(err.Error(), "gateway.senders[0].auth.github[0]: env:NOTHING: is empty or not set") {
		t.Errorf("without a secret: %v", err)
	}
	if err := gateway.Run(t.Context(), cli.Streams{}, []string{"extra"}); cli.ExitCode(err) != cli.ExitUsage {
		t.Errorf("an argument: %v", err)
	}
	var out bytes.Buffer
	if err := gateway.Run(t.Context(), cli.Streams{Out: &out}, []string{"token"}); err != nil {
		t.Fatal(err)
	}
	lines := strings.Fields(out.String())
	if len(lines) != 2 || webhook.HashToken(lines[0]) != lines[1] {
		t.Errorf("token wrote %q", out.String())
	}
}

func natsAt(url string) natskv.Config { return natskv.Config{Servers: []string{url}} }
