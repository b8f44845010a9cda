package main_test

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	natsserver "github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nkeys"

	"github.com/bellpull/bellpull/cmd/internal/natskv"
	"github.com/bellpull/bellpull/cmd/internal/natstest"
	"github.com/bellpull/bellpull/cmd/internal/tools"
	"github.com/bellpull/bellpull/schemas"
)

// vercelCLI brings @vercel/go in the version that it was made with.
const vercelCLI = "vercel@58.10.0"

// Vercel's own builder makes a function of cmd/bellpull-gateway as it stands. It
// runs on nothing but environment variables, and takes its first event at once.
func TestVercel(t *testing.T) {
	if testing.Short() {
		t.Skip("installs Vercel's builder from npm")
	}
	tools.Need(t, "npm", "node", "git")
	output := vercelBuild(t, repository(t))
	checkRoutes(t, filepath.Join(output, "config.json"))

	seed, public := user(t)
	server := natstest.Start(t, func(o *natsserver.Options) { o.Nkeys = []*natsserver.NkeyUser{{Nkey: public}} })
	t.Setenv("NATS_SEED", seed)
	bucket := natstest.Dial(t, natskv.Config{Servers: []string{server.URL()}, NKey: "env:NATS_SEED"})
	if _, err := bucket.Init(t.Context(), natskv.InitOptions{}); err != nil {
		t.Fatal(err)
	}
	function := &function{
		dir: filepath.Join(output, "functions", "go.func"),
		env: []string{
			"BELLPULL_NATS_SERVERS=[" + server.URL() + "]",
			"BELLPULL_NATS_NKEY=env:NATS_SEED",
			"NATS_SEED=" + seed,
			"BELLPULL_CONFIG_YAML=gateway: {senders: [{name: ci, auth: {standard_webhooks: ['env:HOOK_SECRET']}, kinds: ['*'], scopes: ['group/*']}]}",
			"HOOK_SECRET=whsec_" + base64.StdEncoding.EncodeToString(hookSecret),
		},
	}
	var starts []time.Duration
	for n := range 5 {
		starts = append(starts, function.coldStart(t, fmt.Sprintf("cold-start-%d", n)))
	}
	slices.Sort(starts)
	t.Logf("cold start, from the start of the process to its first 202: median %v of %v", starts[len(starts)/2], starts)

	reading, err := bucket.Read(t.Context(), []schemas.Scope{"group/web"})
	if err != nil {
		t.Fatal(err)
	}
	if got := reading.Scopes[0].Document.Entries["motd"]; got.Event != "cold-start-4" || got.Value != `"hello"` {
		t.Errorf("the bucket holds %+v, want the last event's entry", got)
	}
}

// user makes a NATS user.
func user(t *testing.T) (seed, public string) {
	t.Helper()
	pair, err := nkeys.CreateUser()
	if err != nil {
		t.Fatal(err)
	}
	text, err := pair.Seed()
	if err != nil {
		t.Fatal(err)
	}
	if public, err = pair.PublicKey(); err != nil {
		t.Fatal(err)
	}
	return string(text), public
}

// repository copies what git would deploy, with the example's vercel.json on top.
func repository(t *testing.T) string {
	t.Helper()
	root, copied := filepath.Join("..", ".."), t.TempDir()
	for name := range strings.SplitSeq(run(t, root, nil, "git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"), "\x00") {
		text, err := os.ReadFile(filepath.Join(root, name))
		if name == "" || errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(copied, name), text)
	}
	example, err := os.ReadFile(filepath.Join(root, "docs", "examples", "vercel", "vercel.json"))
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(copied, "vercel.json"), example)
	return copied
}

// vercelBuild builds as `vercel build` does on Vercel's machines, and returns the
// directory of what would be deployed.
func vercelBuild(t *testing.T, dir string) string {
	t.Helper()
	cli := t.TempDir()
	// npm keeps what it once fetched; only the first test on a machine asks the registry.
	run(t, cli, nil, "npm", "install", "--prefer-offline", "--no-audit", "--no-fund", "--ignore-scripts", "--no-save", vercelCLI)

	write(t, filepath.Join(dir, ".vercel", "project.json"), []byte(`{"projectId": "prj_x", "orgId": "team_x", "settings": {}}`))
	// The account is asked of this one: nothing leaves the machine.
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "{}", http.StatusForbidden) }))
	t.Cleanup(api.Close)
	run(t, dir, []string{"VERCEL_TELEMETRY_DISABLED=1", "NO_UPDATE_NOTIFIER=1"},
		filepath.Join(cli, "node_modules", ".bin", "vercel"), "build", "--yes", "--token", "x", "--api", api.URL, "--global-config", t.TempDir())
	return filepath.Join(dir, ".vercel", "output")
}

// checkRoutes wants every path to arrive at the function as it was asked for. A
// route of vercel.json's own in front would have the gateway see its destination.
func checkRoutes(t *testing.T, file string) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var config struct{ Routes []json.RawMessage }
	if err := json.Unmarshal(text, &config); err != nil {
		t.Fatal(err)
	}
	var routes bytes.Buffer
	for _, route := range config.Routes {
		if err := json.Compact(&routes, route); err != nil {
			t.Fatal(err)
		}
	}
	want := `{"handle":"filesystem"}{"src":"/(.*)","dest":"/go","transforms":[{"type":"request.path","op":"set","args":"/$1"}]}`
	if got := routes.String(); got != want {
		t.Errorf("routes: got %s, want %s", got, want)
	}
}

// function is what Vercel starts: its launcher runs user-server with $PORT and
// the project's variables, and passes requests on once the port answers.
type function struct {
	dir string
	env []string
}

// coldStart starts the function, posts one event and ends it. It returns the time
// from the start to the 202.
func (f *function) coldStart(t *testing.T, id string) time.Duration {
	t.Helper()
	port := freePort(t)
	var said bytes.Buffer
	cmd := exec.CommandContext(t.Context(), filepath.Join(f.dir, "user-server"))
	cmd.Dir, cmd.Env = f.dir, append([]string{"PORT=" + port}, f.env...)
	cmd.Stdout, cmd.Stderr = &said, &said
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 10 * time.Second

	begun := time.Now()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	for conn, err := net.Dial("tcp", "127.0.0.1:"+port); ; conn, err = net.Dial("tcp", "127.0.0.1:"+port) {
		if err == nil {
			_ = conn.Close()
			break
		}
		select {
		case err := <-ended:
			t.Fatalf("the function ended: %v\n%s", err, said.String())
		case <-time.After(time.Millisecond):
		}
		if time.Since(begun) > 30*time.Second { // Vercel's launcher waits as long
			_ = cmd.Process.Kill()
			<-ended
			t.Fatalf("nothing listens on $PORT\n%s", said.String())
		}
	}
	status, answer := post(t, "http://127.0.0.1:"+port+"/v1/events", id)
	took := time.Since(begun)

	if err := cmd.Cancel(); err != nil {
		t.Error(err)
	}
	if err := <-ended; err != nil {
		t.Errorf("the function ended after SIGTERM: %v, want status 0\n%s", err, said.String())
	}
	if status != http.StatusAccepted {
		t.Fatalf("the first event: got %d %s, want 202\n%s", status, answer, said.String())
	}
	return took
}

var hookSecret = []byte("a secret of 32 bytes, not random")

// post sends a CloudEvent signed as Standard Webhooks says.
func post(t *testing.T, url, id string) (status int, answer string) {
	t.Helper()
	now := time.Now()
	body := fmt.Sprintf(`{"specversion":"1.0","type":"bellpull.set","id":%q,"source":"ci/vercel","time":%q,"subject":"group/web","entry":"motd","data":"hello"}`,
		id, now.UTC().Format(time.RFC3339Nano))
	mac := hmac.New(sha256.New, hookSecret)
	fmt.Fprintf(mac, "%s.%d.%s", id, now.Unix(), body)
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/cloudevents+json")
	request.Header.Set("Webhook-Id", id)
	request.Header.Set("Webhook-Timestamp", fmt.Sprint(now.Unix()))
	request.Header.Set("Webhook-Signature", "v1,"+base64.StdEncoding.EncodeToString(mac.Sum(nil)))
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(text)
}

// run runs a program, which must succeed, and returns what it printed.
func run(t *testing.T, dir string, env []string, name string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), env...)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s %q: %v\n%s%s", name, args, err, out, stderr.String())
	}
	return string(out)
}

func write(t *testing.T, path string, text []byte) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, text, 0o644); err != nil {
		t.Fatal(err)
	}
}

func freePort(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	_, port, err := net.SplitHostPort(listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	return port
}
