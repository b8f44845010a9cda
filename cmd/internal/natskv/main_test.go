package natskv_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/bellpull/bellpull/cmd/internal/natskv"
	"github.com/bellpull/bellpull/schemas"
)

const serverProcess = "NATSKV_TEST_SERVER"

// TestMain lets the test's own program be a nats-server, for a process that can
// be stopped by a signal.
func TestMain(m *testing.M) {
	if store := os.Getenv(serverProcess); store != "" {
		serve(store)
		return
	}
	os.Exit(m.Run())
}

func serve(store string) {
	srv, err := server.NewServer(&server.Options{
		Host: "127.0.0.1", Port: server.RANDOM_PORT, JetStream: true, StoreDir: store, NoLog: true,
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	srv.Start()
	if srv.ReadyForConnections(20 * time.Second) {
		fmt.Println(srv.ClientURL())
	}
	srv.WaitForShutdown()
}

// startProcess starts a nats-server as a process and returns it with its URL.
func startProcess(t *testing.T) (*os.Process, string) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), serverProcess+"="+t.TempDir())
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	url, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatalf("start a nats-server process: %v", err)
	}
	return cmd.Process, strings.TrimSpace(url)
}

func within(t *testing.T, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

// eventually waits until f holds.
func eventually(t *testing.T, what string, f func() bool) {
	t.Helper()
	deadline := time.Now().Add(15 * time.Second)
	for !f() {
		if time.Now().After(deadline) {
			t.Fatalf("not in 15 s: %s", what)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// wantError checks an error's kind and that its text holds all of the words.
func wantError(t *testing.T, err, kind error, words ...string) {
	t.Helper()
	if !errors.Is(err, kind) {
		t.Fatalf("error = %v, want one that is %q", err, kind)
	}
	for _, word := range words {
		if !strings.Contains(err.Error(), word) {
			t.Errorf("error = %q, want it to say %q", err, word)
		}
	}
}

// doc is a document with one entry, whose value is the text given.
func doc(value string) []byte {
	return []byte(`{"bellpull":1,"entries":{"x":{"value":` + value + `}}}`)
}

func put(t *testing.T, b *natskv.Bucket, scope schemas.Scope, body []byte, expect uint64) uint64 {
	t.Helper()
	revision, err := b.Put(t.Context(), scope, body, expect)
	if err != nil {
		t.Fatalf("put %s: %v", scope, err)
	}
	return revision
}

func read(t *testing.T, b *natskv.Bucket, scopes ...schemas.Scope) schemas.Reading {
	t.Helper()
	reading, err := b.Read(within(t, 10*time.Second), scopes)
	if err != nil {
		t.Fatalf("read %v: %v", scopes, err)
	}
	return reading
}
