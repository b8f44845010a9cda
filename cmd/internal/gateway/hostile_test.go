package gateway_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bellpull/bellpull/cmd/internal/natstest"
)

const forge = `{name: forge, auth: {github: ["env:HUB"]}, kinds: ["*"], scopes: ["**"]}`

func hostileRig(t *testing.T) *process {
	t.Helper()
	nats := natstest.Start(t)
	natstest.Bucket(t, nats)
	t.Setenv("HUB", "a secret of the forge")
	return start(t, nats.URL(), strings.Replace(settings, "]\n", ", "+forge+"]\n", 1))
}

// raw opens a connection and writes text; it is closed when the test ends.
func (p *process) raw(text string) net.Conn {
	p.t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(p.url, "http://"))
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() { _ = conn.Close() })
	if _, err := io.WriteString(conn, text); err != nil {
		p.t.Fatal(err)
	}
	return conn
}

// answer reads the answer's status; 0 = the connection ended without one.
func answer(conn net.Conn) int {
	_ = conn.SetReadDeadline(time.Now().Add(time.Minute))
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return 0
	}
	_ = resp.Body.Close()
	return resp.StatusCode
}

const (
	line     = "POST /v1/events HTTP/1.1\r\nHost: x\r\nContent-Type: application/cloudevents+json\r\n"
	unsigned = "X-Hub-Signature-256: sha256=00\r\n" // the body is wanted to check it
)

// SEC-04: the body is bounded before the signature can be checked.
func TestSEC04_BoundedBeforeItIsProven(t *testing.T) {
	p := hostileRig(t)
	for _, test := range []struct {
		name, request string
		want          int
	}{
		{"500 MB announced by a stranger", line + "Content-Length: 524288000\r\n\r\n", 401},
		{"500 MB announced", line + unsigned + "Content-Length: 524288000\r\n\r\n", 413},
		{"chunks without end", line + unsigned + "Transfer-Encoding: chunked\r\n\r\n" + strings.Repeat("8000\r\n"+strings.Repeat("x", 0x8000)+"\r\n", 10), 413},
		{"deep nesting", line + "Authorization: Bearer " + token + "\r\nContent-Length: 200000\r\n\r\n" + strings.Repeat("[", 100000) + strings.Repeat("]", 100000), 400},
		{"gzip", line + unsigned + "Content-Encoding: gzip\r\nContent-Length: 3\r\n\r\n\x1f\x8b\x08", 415},
		{"a header of 1 MB", "POST /v1/events HTTP/1.1\r\nHost: x\r\nX-A: " + strings.Repeat("x", 64<<10) + "\r\n\r\n", 431},
	} {
		if got := answer(p.raw(test.request)); got != test.want {
			t.Errorf("%s: %d, want %d", test.name, got, test.want)
		}
	}

	before := heap()
	var open []net.Conn
	for range 500 { // half-open posts
		open = append(open, p.raw(line+unsigned+"Content-Length: 200000\r\n\r\n"+strings.Repeat("x", 1000)))
	}
	slowHeader := p.raw("POST /v1/events HTTP/1.1\r\nHost: x\r\nX-A: ")
	if status, body := p.post("honest", 1); status != 202 {
		t.Errorf("an honest sender beside 500 half-open posts: %d %s", status, body)
	}
	if grown := int64(heap()) - int64(before); grown > 30<<20 {
		t.Errorf("the process grew by %d MiB, want at most 30", grown>>20)
	}
	if status := answer(slowHeader); status != 0 && status != 408 {
		t.Errorf("a header that never ends: %d, want an end", status)
	}
	for i, conn := range open {
		if status := answer(conn); status != 408 && status != 401 && status != 503 {
			t.Fatalf("half-open post %d: %d, want 408", i, status)
		}
	}
}

// Bodies that are being read hold a bounded memory; who does not fit is told to
// come again.
func TestManyLargeBodies(t *testing.T) {
	p := hostileRig(t)
	half := strings.Repeat("x", 250<<10)
	var conns []net.Conn
	for range 100 {
		conns = append(conns, p.raw(line+unsigned+fmt.Sprintf("Content-Length: %d\r\n\r\n", len(half)+1)+half))
	}
	var busy atomic.Int32
	var wg sync.WaitGroup
	for _, conn := range conns {
		wg.Go(func() {
			if answer(conn) == 503 {
				busy.Add(1)
			}
		})
	}
	wg.Wait()
	if busy.Load() == 0 {
		t.Error("25 MB of bodies were held at a time")
	}
	if status, body := p.post("after", 1); status != 202 {
		t.Errorf("after it: %d %s", status, body)
	}
}

// A flood of strangers next to an honest sender, who is still served.
func TestFloodOfStrangers(t *testing.T) {
	p := hostileRig(t)
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 32}}
	defer client.CloseIdleConnections()
	var wg sync.WaitGroup
	var refused atomic.Int32
	done := make(chan struct{})
	for range 32 {
		wg.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, p.url+"/v1/events", strings.NewReader("{}"))
				if err != nil {
					t.Error(err)
					return
				}
				resp, err := client.Do(req)
				if err != nil {
					t.Error(err)
					return
				}
				_, _ = io.Copy(io.Discard, resp.Body)
				_ = resp.Body.Close()
				if resp.StatusCode == 401 {
					refused.Add(1)
				}
			}
		})
	}
	for i := 0; refused.Load() < 10_000; i++ {
		if status, body := p.post(fmt.Sprint(i), i); status != 202 {
			t.Errorf("honest event %d: %d %s", i, status, body)
			break
		}
	}
	close(done)
	wg.Wait()
	if lines := strings.Count(p.log.String(), "\n"); lines > 20_000 {
		t.Errorf("%d lines of log for %d refusals", lines, refused.Load())
	}
}

func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapInuse + m.StackInuse
}
