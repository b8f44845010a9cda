package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/rogpeppe/go-internal/testscript"

	"github.com/bellpull/bellpull/cmd/internal/natskv"
	"github.com/bellpull/bellpull/cmd/internal/natstest"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"bellpull": main})
}

func TestScripts(t *testing.T) {
	scripts, err := filepath.Glob("testdata/script/*.txtar")
	if err != nil || len(scripts) == 0 {
		t.Fatalf("got %d scripts, %v", len(scripts), err)
	}
	for _, script := range scripts {
		t.Run(strings.TrimSuffix(filepath.Base(script), ".txtar"), func(t *testing.T) {
			t.Parallel()
			l := &lab{t: t}
			testscript.Run(t, testscript.Params{
				Files: []string{script}, Setup: l.setup, Cmds: l.commands(),
				RequireExplicitExec: true, RequireUniqueNames: true, UpdateScripts: os.Getenv("UPDATE_SCRIPTS") != "",
			})
		})
	}
}

// lab is what a script finds.
//
//	nats [bare|users]   starts a server with a bucket, without one, or with the
//	                    users op:right (all rights) and reader:right (none)
//	nats-stop           stops it
//	silent              starts a listener that never answers
//	url TEXT|FILE       takes this URL for the server's
//	raw KEY BODY        writes as a plain KV client does: any key, any body
//	del KEY             deletes a key as a plain KV client does
//	stream JSON         makes a stream
//	report NODE JSON    a node's status, with these members beside node and bucket
//	code N COMMAND...   the command must end with N, and, unless N is 0, with
//	                    nothing on stdout and one line on stderr, or two if the second is a hint
//	until FILE PATTERN  waits until the file matches
//	within D COMMAND... the command must end in that time, however it ends
type lab struct {
	t      *testing.T
	server *natstest.Server
	bucket *natskv.Bucket
}

func (l *lab) setup(env *testscript.Env) error {
	env.Setenv("BELLPULL_STATE", filepath.Join(env.WorkDir, "state"))
	env.Setenv("BELLPULL_CONFIG", filepath.Join(env.WorkDir, "bellpull.yaml"))
	// The real ones take seconds; TestRealPrograms asks them.
	bin := filepath.Join(env.WorkDir, "bin")
	env.Setenv("PATH", bin+string(filepath.ListSeparator)+env.Getenv("PATH"))
	return errors.Join(
		os.WriteFile(filepath.Join(env.WorkDir, "bellpull.yaml"), nil, 0o600),
		os.Mkdir(bin, 0o755),
		os.WriteFile(filepath.Join(bin, "facter"), []byte("#!/bin/sh\necho 4.3.0\n"), 0o755),
		os.WriteFile(filepath.Join(bin, "puppet"), []byte(fakePuppet), 0o755),
	)
}

const fakePuppet = `#!/bin/sh
case "$*" in
--version) echo 7.23.0 ;;
"config print --section agent "*)
	state=$(cd "$(dirname "$0")/.." && pwd)/state # the environment is a clean one
	echo "agent_catalog_run_lockfile = $state/run.lock"
	echo "agent_disabled_lockfile = $state/disabled.lock"
	echo "lastrunreport = $state/report.yaml" ;;
*) exit 9 ;;
esac
`

func (l *lab) commands() map[string]func(*testscript.TestScript, bool, []string) {
	commands := map[string]func(*testscript.TestScript, bool, []string){}
	for name, f := range map[string]func(*testscript.TestScript, []string) error{
		"nats": l.nats, "nats-stop": l.natsStop, "silent": l.silent, "url": l.url, "raw": l.raw, "del": l.del, "stream": l.stream, "report": l.report,
		"code": code, "until": until, "within": within,
	} {
		commands[name] = func(ts *testscript.TestScript, neg bool, args []string) {
			if neg {
				ts.Fatalf("%s cannot be negated", name)
			}
			ts.Check(f(ts, args))
		}
	}
	return commands
}

func (l *lab) report(ts *testscript.TestScript, args []string) error {
	if len(args) != 2 {
		return errors.New("usage: report NODE JSON")
	}
	reading, err := l.bucket.Read(l.t.Context(), nil)
	if err != nil {
		return err
	}
	body := fmt.Sprintf(`{"node":%q,"bucket":%q,%s`, args[0], reading.Bucket, strings.TrimPrefix(args[1], "{"))
	_, err = natstest.Conn(l.t, l.server).Request("bellpull.status.desired."+strings.ReplaceAll(args[0], ".", "/"), []byte(body), 20*time.Second)
	return err
}

func (l *lab) nats(ts *testscript.TestScript, args []string) error {
	kind := strings.Join(args, "")
	l.server = natstest.Start(l.t, func(o *server.Options) {
		if kind == "users" {
			none := &server.SubjectPermission{Deny: []string{">"}}
			o.Users = []*server.User{
				{Username: "op", Password: "right"},
				{Username: "reader", Password: "right", Permissions: &server.Permissions{Publish: none}},
			}
		}
	})
	url := l.server.URL()
	if kind == "" {
		l.bucket = natstest.Bucket(l.t, l.server)
	}
	ts.Setenv("NATS", url)
	ts.Setenv("HOSTPORT", strings.TrimPrefix(url, "nats://"))
	return l.url(ts, []string{url})
}

func (l *lab) natsStop(*testscript.TestScript, []string) error {
	l.server.Stop()
	return nil
}

func (l *lab) silent(ts *testscript.TestScript, _ []string) error {
	return l.url(ts, []string{natstest.Silent(l.t)})
}

func (l *lab) url(ts *testscript.TestScript, args []string) error {
	url := args[0]
	if !strings.Contains(url, "://") {
		url = strings.TrimSpace(ts.ReadFile(url))
	}
	ts.Setenv("BELLPULL_NATS_SERVERS", "["+url+"]")
	return nil
}

func (l *lab) raw(_ *testscript.TestScript, args []string) error {
	answer, err := natstest.Conn(l.t, l.server).Request("$KV.desired."+args[0], []byte(args[1]), 5*time.Second)
	if err == nil && strings.Contains(string(answer.Data), `"error"`) {
		err = fmt.Errorf("%s", answer.Data)
	}
	return err
}

func (l *lab) del(_ *testscript.TestScript, args []string) error {
	js, err := natstest.Conn(l.t, l.server).JetStream()
	if err != nil {
		return err
	}
	kv, err := js.KeyValue("desired")
	if err != nil {
		return err
	}
	return kv.Delete(args[0])
}

func (l *lab) stream(_ *testscript.TestScript, args []string) error {
	name := regexp.MustCompile(`"name": *"([^"]+)"`).FindStringSubmatch(args[0])
	answer, err := natstest.Conn(l.t, l.server).Request("$JS.API.STREAM.CREATE."+name[1], []byte(args[0]), 5*time.Second)
	if err == nil && strings.Contains(string(answer.Data), `"error"`) {
		err = fmt.Errorf("%s", answer.Data)
	}
	return err
}

func code(ts *testscript.TestScript, args []string) error {
	got := exitCode(ts.Exec(args[1], args[2:]...))
	stdout, stderr := ts.ReadFile("stdout"), ts.ReadFile("stderr")
	if got != args[0] {
		return fmt.Errorf("got exit code %s, want %s", got, args[0])
	}
	first, rest, _ := strings.Cut(stderr, "\n")
	if got != "0" && (stdout != "" || first == "" || rest != "" && (!strings.HasPrefix(rest, "hint: ") || strings.Count(rest, "\n") != 1)) {
		return errors.New("want nothing on stdout and one line on stderr, or two if the second is a hint")
	}
	return nil
}

func exitCode(err error) string {
	var exit *exec.ExitError
	switch {
	case err == nil:
		return "0"
	case errors.As(err, &exit):
		return fmt.Sprint(exit.ExitCode())
	}
	return err.Error()
}

func until(ts *testscript.TestScript, args []string) error {
	pattern := regexp.MustCompile(args[1])
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		text, err := os.ReadFile(ts.MkAbs(args[0]))
		if err == nil && pattern.Match(text) {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%s still is %q", args[0], text)
		}
	}
}

func within(ts *testscript.TestScript, args []string) error {
	most, err := time.ParseDuration(args[0])
	if err != nil {
		return err
	}
	start := time.Now()
	_ = ts.Exec(args[1], args[2:]...) // how it ends is for the next line of the script
	if took := time.Since(start); took > most {
		return fmt.Errorf("took %v, want at most %v", took, most)
	}
	return nil
}
