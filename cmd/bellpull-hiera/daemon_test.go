package main

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/bellpull/bellpull/cmd/internal/natskv"
	"github.com/bellpull/bellpull/cmd/internal/natstest"
	"github.com/bellpull/bellpull/cmd/internal/servicetest"
	"github.com/bellpull/bellpull/cmd/internal/tools"
	"github.com/bellpull/bellpull/schemas"
)

// inconsistent tells what a reader of the directory would stumble over: a data file
// or list that is not whole, and a scope that is listed and has no file.
func inconsistent(t testing.TB, dir string) (wrong []string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*=2F*.json"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		lines := strings.Split(string(text), "\n")
		var head struct{ Checksum string }
		if err != nil || len(lines) != 3 || json.Unmarshal([]byte(lines[0]), &head) != nil {
			wrong = append(wrong, fmt.Sprintf("%s is not whole (%v)", file, err))
			continue
		}
		if sum := sha256.Sum256([]byte(lines[1])); head.Checksum != "sha256:"+hex.EncodeToString(sum[:]) {
			wrong = append(wrong, file+" does not match its checksum")
		}
	}
	lists, err := filepath.Glob(filepath.Join(dir, "scopes", "*.json"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range lists {
		text, err := os.ReadFile(file)
		var list struct{ Scopes []schemas.Scope }
		if err != nil || json.Unmarshal(text, &list) != nil {
			wrong = append(wrong, fmt.Sprintf("%s is not whole (%v)", file, err))
		}
		for _, scope := range list.Scopes {
			if _, err := os.Stat(filepath.Join(dir, scope.FileName())); err != nil {
				wrong = append(wrong, fmt.Sprintf("%s is listed: %v", scope, err))
			}
		}
	}
	return wrong
}

// Buckets are kept side by side, and the service manager hears that all is ready
// when each has been synced, and not before.
func TestBucketsSideBySide(t *testing.T) {
	p := newPlace(t, filepath.Join(t.TempDir(), "hiera"))
	p.set(t, "common", `{"a":{"value":"production"}}`)
	dev := natstest.Dial(t, natskv.Config{Servers: []string{p.server.URL()}, Bucket: "development"})
	next := servicetest.Manager(t, filepath.Join(t.TempDir(), "notify"))
	cmd := p.startDaemon(t, "BELLPULL_HIERA_BUCKETS={development: {prefixes: [common]}}")
	if got := next(); got != "STATUS=waiting for the first full sync" {
		t.Errorf("told %q", got)
	}
	p.until(t, "common.json", "production")
	p.until(t, "heartbeat.json", "time")
	if p.exists("buckets/development/synced.json") {
		t.Error("a bucket that does not exist has been synced")
	}

	if _, err := dev.Init(t.Context(), natskv.InitOptions{}); err != nil {
		t.Fatal(err)
	}
	for scope, value := range map[schemas.Scope]string{"common": "tried first", "group/web": "not covered"} {
		if _, err := dev.Put(t.Context(), scope, []byte(`{"bellpull":1,"entries":{"a":{"value":"`+value+`"}}}`), 0); err != nil {
			t.Fatal(err)
		}
	}
	if got := next(); got != "READY=1" {
		t.Errorf("told %q, want READY=1", got)
	}
	if got := next(); !strings.HasPrefix(got, "STATUS=data files of 1 + ") {
		t.Errorf("told %q", got)
	}
	p.until(t, "buckets/development/common.json", "tried first")
	p.until(t, "common.json", "production")
	if p.exists("buckets/development/group=2Fweb.json") {
		t.Error("a scope that is not covered has a file")
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
}

func (p *place) exists(name string) bool {
	_, err := os.Stat(filepath.Join(p.hiera, name))
	return err == nil
}

// A hangup has every file verified at once.
func TestHangupVerifies(t *testing.T) {
	p := newPlace(t, filepath.Join(t.TempDir(), "hiera"))
	p.set(t, "common", `{"a":{"value":"whole"}}`)
	cmd := p.daemon(t)
	file := filepath.Join(p.hiera, "common.json")
	if err := os.WriteFile(file, []byte("damaged"), 0o640); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	p.until(t, "common.json", "whole")
}

// As root the files are for Puppet Server's group, and for nobody else.
func TestFilesAreForPuppetServer(t *testing.T) {
	tools.Need(t, "puppetserver")
	group, err := user.LookupGroup("puppet")
	if err != nil || os.Getuid() != 0 {
		t.Skipf("NOT TESTED: only root may give files to a group (%v)", err)
	}
	want, err := strconv.Atoi(group.Gid)
	if err != nil {
		t.Fatal(err)
	}
	p := newPlace(t, filepath.Join(t.TempDir(), "hiera"))
	p.set(t, "common", `{}`)
	p.sync(t)
	for name, mode := range map[string]os.FileMode{
		"": 0o750, "scopes": 0o750, "common.json": 0o640, "synced.json": 0o640, "heartbeat.json": 0o640, "scopes/92.json": 0o640,
	} {
		info, err := os.Stat(filepath.Join(p.hiera, name))
		if err != nil {
			t.Fatal(err)
		}
		if got := int(info.Sys().(*syscall.Stat_t).Gid); got != want || info.Mode().Perm() != mode {
			t.Errorf("%q: got group %d and mode %v, want %d and %v", name, got, info.Mode().Perm(), want, mode)
		}
	}
	cmd := exec.CommandContext(t.Context(), "bellpull-hiera", "sync", "--once")
	cmd.Env = append(append(os.Environ(), p.env()...), "BELLPULL_HIERA_GROUP=no-such-group")
	if out, err := cmd.CombinedOutput(); err == nil || !strings.Contains(string(out), "hiera.group: group: unknown group no-such-group") {
		t.Errorf("a group that is not there: got %v\n%s", err, out)
	}
}

// On a full disk no file is cut short, what does not fit is reported, and all is
// written when there is room again.
func TestFullDisk(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("NOT TESTED: only root may mount a small file system")
	}
	tools.Need(t, "unshare")
	p := newPlace(t, t.TempDir())
	outside := p.hiera
	p.set(t, "node/first", `{"a":{"value":"fits"}}`)
	log := filepath.Join(t.TempDir(), "log")
	cmd := exec.Command("unshare", "--mount", "--propagation", "private", "sh", "-c", `mount -t tmpfs -o size=2m,mode=0755 tmpfs "$0" && exec bellpull-hiera sync`, p.hiera)
	p.start(t, cmd, log)
	// The file system is the process's own: it is seen through its eyes.
	p.hiera = fmt.Sprintf("/proc/%d/root%s", cmd.Process.Pid, outside)
	p.until(t, "heartbeat.json", "time")
	long := strings.Repeat("x", 300_000)
	for i := range 8 {
		p.set(t, fmt.Sprintf("node/n%d", i), `{"a":{"value":"`+long+`"}}`)
	}
	p.untilLog(t, log, "no space left on device")
	p.set(t, "node/last", `{"a":{"value":"after"}}`)
	for _, wrong := range inconsistent(t, p.hiera) {
		t.Error(wrong)
	}
	for i := range 8 {
		p.set(t, fmt.Sprintf("node/n%d", i), `{"a":{"value":"short"}}`)
	}
	for i := range 8 {
		p.until(t, fmt.Sprintf("node=2Fn%d.json", i), "short")
	}
	p.until(t, "node=2Flast.json", "after")
	for _, wrong := range inconsistent(t, p.hiera) {
		t.Error(wrong)
	}
}

// startDaemon starts bellpull-hiera sync with these variables.
func (p *place) startDaemon(t testing.TB, variables ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command("bellpull-hiera", "sync")
	cmd.Env = variables
	p.start(t, cmd, filepath.Join(t.TempDir(), "log"))
	return cmd
}

func (p *place) start(t testing.TB, cmd *exec.Cmd, log string) {
	t.Helper()
	file, err := os.Create(log)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	cmd.Env = append(append(os.Environ(), p.env()...), cmd.Env...)
	cmd.Stdout, cmd.Stderr = file, file
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if text, err := os.ReadFile(log); t.Failed() {
			t.Logf("the sync: %s (%v)", text, err)
		}
	})
}

func (p *place) untilLog(t testing.TB, log, text string) {
	t.Helper()
	q := &place{hiera: filepath.Dir(log)}
	q.until(t, filepath.Base(log), text)
}

// A document over the limit is refused by every writer of ours. One that a foreign
// client has stored all the same, on a server that allows it, is reported, keeps the
// scope's last good data, and stands in nobody's way.
func TestTooLargeDocumentIsSurvived(t *testing.T) {
	p := &place{server: natstest.Start(t, func(o *server.Options) { o.MaxPayload = 8 << 20 }), hiera: filepath.Join(t.TempDir(), "hiera")}
	natstest.Bucket(t, p.server)
	p.set(t, "group/long", `{"a":{"value":"good"}}`)
	p.set(t, "group/many", `{"a":{"value":"good"}}`)
	log := filepath.Join(t.TempDir(), "log")
	p.start(t, exec.Command("bellpull-hiera", "sync"), log)
	p.until(t, "group=2Flong.json", "good")

	var entries strings.Builder
	for i := range 100_000 {
		fmt.Fprintf(&entries, `"k%d":{"value":%d},`, i, i)
	}
	nc := natstest.Conn(t, p.server)
	for scope, text := range map[schemas.Scope]string{
		"group/long": `"a":{"value":"` + strings.Repeat("x", 5<<20) + `"}`,
		"group/many": entries.String() + `"a":{"value":1}`,
	} {
		answer, err := nc.Request("$KV.desired."+scope.Key(), []byte(`{"bellpull":1,"entries":{`+text+`}}`), 10*time.Second)
		if err != nil || strings.Contains(string(answer.Data), "error") {
			t.Fatalf("store %s: %v %s", scope, err, answer.Data)
		}
		p.untilLog(t, log, "last good data stay: scope="+string(scope))
	}
	p.set(t, "common", `{"a":{"value":"later"}}`)
	p.until(t, "common.json", "later")
	for _, name := range []string{"group=2Flong.json", "group=2Fmany.json"} {
		p.until(t, name, `"value":"good"`)
	}
}
