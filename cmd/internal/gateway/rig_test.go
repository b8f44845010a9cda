package gateway_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bellpull/bellpull/cmd/internal/cli"
	"github.com/bellpull/bellpull/cmd/internal/gateway"
	"github.com/bellpull/bellpull/cmd/internal/webhook"
	"github.com/bellpull/bellpull/schemas"
)

const (
	token    = "bp_QGBTD7T4UG254OAYRWE3NW3QBL"
	settings = `
gateway:
  senders: [{name: shop, auth: {bearer: ["env:HASH"]}, kinds: ["*"], scopes: ["**"], rate: 100000/s}]
`
)

// process is a gateway that runs as its command does.
type process struct {
	t    *testing.T
	url  string
	file string
	stop context.CancelFunc
	done chan error
	log  *lockedBuffer
}

// start starts a gateway on a free port. nats is the server's URL, more are
// further settings.
func start(t *testing.T, nats, more string, args ...string) *process {
	t.Helper()
	t.Setenv("HASH", webhook.HashToken(token))
	p := &process{t: t, file: filepath.Join(t.TempDir(), "bellpull.yaml"), done: make(chan error, 1), log: &lockedBuffer{}}
	p.configure(nats, more)
	ctx, cancel := context.WithCancel(t.Context())
	p.stop = cancel
	out, written := io.Pipe()
	go func() {
		p.done <- gateway.Run(ctx, cli.Streams{In: strings.NewReader(""), Out: written, Err: p.log}, append([]string{"--config", p.file, "--listen", "127.0.0.1:0"}, args...))
		_ = written.Close()
	}()
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatalf("the gateway did not start: %v\n%s", <-p.done, p.log)
	}
	p.url = strings.TrimSpace(line)
	t.Cleanup(func() { cancel(); p.end() })
	return p
}

func (p *process) configure(nats, more string) {
	p.t.Helper()
	if err := os.WriteFile(p.file, []byte("nats: {servers: [\""+nats+"\"]}\n"+more), 0o600); err != nil {
		p.t.Fatal(err)
	}
}

// end waits until the gateway has ended.
func (p *process) end() error {
	err, ok := <-p.done
	if ok {
		close(p.done)
	}
	return err
}

func (p *process) get(path string) (int, string) { return p.send("GET", path, "", "") }

// post sends an event that sets x in group/web to n.
func (p *process) post(id string, n int) (int, string) {
	return p.send("POST", "/v1/events", "application/cloudevents+json", fmt.Sprintf(
		`{"specversion":"1.0","type":"bellpull.set","id":%q,"source":"t","time":%q,"subject":"group/web","entry":"x","data":%d}`, id, time.Now().UTC().Format(time.RFC3339Nano), n))
}

func (p *process) send(method, path, contentType, body string) (int, string) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, p.url+path, strings.NewReader(body))
	if err != nil {
		p.t.Error(err)
		return 0, ""
	}
	req.Header.Set("Authorization", "Bearer "+token)
	req.Header.Set("Content-Type", contentType)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, err.Error()
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0, err.Error()
	}
	if resp.StatusCode == http.StatusServiceUnavailable && resp.Header.Get("Retry-After") == "" {
		p.t.Error("503 without Retry-After")
	}
	return resp.StatusCode, string(text)
}

func eventually(t *testing.T, what string, f func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !f(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%s: not within a minute", what)
		}
	}
}

type reader interface {
	Read(ctx context.Context, scopes []schemas.Scope) (schemas.Reading, error)
}

func value(t *testing.T, b reader, entry string) schemas.Value {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	reading, err := b.Read(ctx, []schemas.Scope{"group/web"})
	if err != nil || reading.Scopes[0].Err != nil {
		t.Fatalf("read: %v %+v", err, reading.Scopes)
	}
	return reading.Scopes[0].Document.Entries[entry].Value
}

// lockedBuffer may be read while it is written.
type lockedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}
