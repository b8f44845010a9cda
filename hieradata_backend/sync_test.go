package hieradata_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"

	hieradata "github.com/bellpull/bellpull/hieradata_backend"
	"github.com/bellpull/bellpull/schemas"
)

func once(t *testing.T, cfg hieradata.Config) {
	t.Helper()
	if err := hieradata.New(cfg).Once(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// contents maps the names of the directory's files to their text.
func contents(t *testing.T, dir string) map[string]string {
	t.Helper()
	list, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for _, item := range list {
		if !item.IsDir() {
			out[item.Name()] = read(t, filepath.Join(dir, item.Name()))
		}
	}
	return out
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

type syncedJSON struct {
	Bucket   string
	Prefixes []string
	Scopes   []string
	Synced   time.Time
}

func synced(t *testing.T, dir string) (s syncedJSON) {
	t.Helper()
	if err := json.Unmarshal([]byte(read(t, filepath.Join(dir, "synced.json"))), &s); err != nil {
		t.Fatal(err)
	}
	for n := range 256 {
		name := fmt.Sprintf("scopes/%02x.json", n)
		var list struct {
			Bucket string
			Scopes []string
		}
		if err := json.Unmarshal([]byte(read(t, filepath.Join(dir, name))), &list); err != nil {
			t.Fatal(err)
		}
		if list.Bucket != s.Bucket {
			t.Errorf("%s is of bucket %s, synced.json of %s", name, list.Bucket, s.Bucket)
		}
		for _, scope := range list.Scopes {
			if sum := sha256.Sum256([]byte(scope)); int(sum[0]) != n {
				t.Errorf("%s lists %s", name, scope)
			}
		}
		s.Scopes = append(s.Scopes, list.Scopes...)
	}
	slices.Sort(s.Scopes)
	return s
}

func beat(t *testing.T, dir string) (h struct {
	Time     time.Time
	Sequence uint64
}) {
	t.Helper()
	if err := json.Unmarshal([]byte(read(t, filepath.Join(dir, "heartbeat.json"))), &h); err != nil {
		t.Fatal(err)
	}
	return h
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return !errors.Is(err, fs.ErrNotExist)
}

func TestOnceWritesTheFormat(t *testing.T) {
	s, dir := newStore(), filepath.Join(t.TempDir(), "var", "hiera")
	s.put("node/web1.example.com", entries(`"z":{"value":1.50},"a[b]":{"value":{"x":null,"%{y}":"é<\n"},"expires":"2999-01-01T00:00:00Z","sensitive":true,"kind":"k","event":"e"},"old":{"value":1,"expires":"2001-01-01T00:00:00Z"}`))
	s.put("os/Debian:12", entries(``))
	s.put("common", entries(`"big":{"value":123456789012345678901234567890}`))
	s.put("common", "")
	once(t, hieradata.Config{Store: s, Dir: dir})

	body := `{"entries":{"a[b]":{"value":{"%{y}":"é<\n","x":null},"expires":"2999-01-01T00:00:00Z","sensitive":true},"z":{"value":1.50}}}`
	sum := sha256.Sum256([]byte(body))
	want := `{"bellpull":1,"scope":"node/web1.example.com","bucket":"b1","revision":2,"checksum":"sha256:` + hex.EncodeToString(sum[:]) + `"}` + "\n" + body + "\n"
	files := contents(t, dir)
	if got := files["node=2Fweb1.example.com.json"]; got != want {
		t.Errorf("got the file\n%s\nwant\n%s", got, want)
	}
	if got := files["os=2FDebian=3A12.json"]; !strings.HasSuffix(got, "\n"+`{"entries":{}}`+"\n") {
		t.Errorf("got %q for a document without entries", got)
	}
	if len(files) != 4 {
		t.Errorf("got %d files, want 2 scopes, synced.json and heartbeat.json", len(files))
	}
	if got := synced(t, dir); got.Bucket != "b1" || !slices.Equal(got.Prefixes, []string{""}) || !slices.Equal(got.Scopes, []string{"node/web1.example.com", "os/Debian:12"}) || got.Synced.IsZero() {
		t.Errorf("got synced.json %+v", got)
	}
	if got := beat(t, dir); got.Sequence != 5 || time.Since(got.Time) > time.Minute {
		t.Errorf("got heartbeat.json %+v", got)
	}
	for path, want := range map[string]fs.FileMode{"": 0o750, "synced.json": 0o640, "heartbeat.json": 0o640, "os=2FDebian=3A12.json": 0o640} {
		info, err := os.Stat(filepath.Join(dir, path))
		if err != nil {
			t.Fatal(err)
		}
		if got := info.Mode().Perm(); got != want {
			t.Errorf("got mode %v for %q, want %v", got, path, want)
		}
	}
}

func TestNothingIsSyncedBeforeTheFirstLoadEnded(t *testing.T) {
	s, dir := newStore(), t.TempDir()
	s.put("common", entries(`"a":{"value":1}`))
	for _, test := range []struct {
		name   string
		before func()
		want   string
	}{
		{"store away", func() { s.away = true }, "away"},
		{"no bucket id", func() { s.away, s.bucket = false, "" }, "run bellpull init"},
	} {
		t.Run(test.name, func(t *testing.T) {
			test.before()
			err := hieradata.New(hieradata.Config{Store: s, Dir: dir}).Once(t.Context())
			if !errors.Is(err, schemas.ErrUnavailable) || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got error %v, want one that is unavailable and says %q", err, test.want)
			}
			if got := contents(t, dir); len(got) != 0 {
				t.Errorf("got files %v, want none", got)
			}
		})
	}
}

func TestRestartWritesOnlyWhatDiffers(t *testing.T) {
	s, dir := newStore(), t.TempDir()
	cfg := hieradata.Config{Store: s, Dir: dir}
	for _, scope := range []schemas.Scope{"same", "torn", "renamed", "lost", "newer", "gone"} {
		s.put(scope, entries(`"a":{"value":"`+string(scope)+`"}`))
	}
	once(t, cfg)
	before := contents(t, dir)
	stat := func(name string) fs.FileInfo {
		t.Helper()
		info, err := os.Stat(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		return info
	}
	same, list := stat("same.json"), stat("synced.json")

	s.put("newer", entries(`"a":{"value":2}`))
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o640); err != nil {
			t.Fatal(err)
		}
	}
	write("torn.json", before["torn.json"][:100])
	write("renamed.json", before["same.json"])
	if err := os.Remove(filepath.Join(dir, "lost.json")); err != nil {
		t.Fatal(err)
	}
	write(filepath.Join(".tmp", "left"), "by a killed process")
	write("copied.json", before["same.json"])
	write("notes.txt", "somebody else's")
	once(t, cfg)

	after := contents(t, dir)
	for _, name := range []string{"torn.json", "renamed.json", "lost.json", "gone.json"} {
		if after[name] != before[name] {
			t.Errorf("got %q for %s, want what it held before", after[name], name)
		}
	}
	if !strings.Contains(after["newer.json"], `"value":2`) {
		t.Errorf("got %q for the newer document", after["newer.json"])
	}
	if !os.SameFile(same, stat("same.json")) || !os.SameFile(list, stat("synced.json")) {
		t.Error("a file that is equal was written anew, so that every compile would parse it again")
	}
	if exists(filepath.Join(dir, ".tmp", "left")) {
		t.Error("a stale temporary file is still there")
	}
	if after["copied.json"] != "" {
		t.Error("another scope's file still stands for a scope without a document")
	}
	if after["notes.txt"] == "" {
		t.Error("a foreign file is gone")
	}

	s.put("gone", "")
	once(t, cfg)
	if exists(filepath.Join(dir, "gone.json")) || slices.Contains(synced(t, dir).Scopes, "gone") {
		t.Error("a deleted scope still has its file, or is listed")
	}
}

func TestInvalidBodyKeepsTheLastGoodFile(t *testing.T) {
	s, dir := newStore(), t.TempDir()
	var log bytes.Buffer
	cfg := hieradata.Config{Store: s, Dir: dir, Log: hclog.New(&hclog.LoggerOptions{Output: &log})}
	s.put("group/web", entries(`"a":{"value":1}`))
	once(t, cfg)
	good := read(t, filepath.Join(dir, "group=2Fweb.json"))
	s.put("group/web", `{"bellpull":1,"entries":{"a":{}}}`)
	s.put("never/good", `no document`)
	for range 2 { // the second time it starts from what is on disk
		once(t, cfg)
		if got := read(t, filepath.Join(dir, "group=2Fweb.json")); got != good {
			t.Errorf("got %q, want the last good file", got)
		}
		// Listed without a file: readers take it for lost, not for empty.
		if got := synced(t, dir).Scopes; !slices.Equal(got, []string{"group/web", "never/good"}) || exists(filepath.Join(dir, "never=2Fgood.json")) {
			t.Errorf("got %v as the scopes with a document", got)
		}
	}
	for _, want := range []string{"scope=group/web revision=3", "/entries/a/value", "scope=never/good revision=4"} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("got the log %q, want it to say %q", log.String(), want)
		}
	}
}

func TestPrefixesGoByWholeSegments(t *testing.T) {
	s, dir := newStore(), t.TempDir()
	for _, scope := range []schemas.Scope{"group", "group/web", "groups", "common", "node/a"} {
		s.put(scope, entries(``))
	}
	once(t, hieradata.Config{Store: s, Dir: dir})
	once(t, hieradata.Config{Store: s, Dir: dir, Prefixes: []string{"group/", "common"}})
	if got := synced(t, dir); !slices.Equal(got.Prefixes, []string{"group", "common"}) || !slices.Equal(got.Scopes, []string{"common", "group", "group/web"}) {
		t.Errorf("got synced.json %+v", got)
	}
	for name, want := range map[string]bool{"group.json": true, "group=2Fweb.json": true, "common.json": true, "groups.json": false, "node=2Fa.json": false} {
		if got := exists(filepath.Join(dir, name)); got != want {
			t.Errorf("got %s there: %v, want %v", name, got, want)
		}
	}
}

func TestScopesWithReservedNamesDoNotHarm(t *testing.T) {
	s, dir := newStore(), t.TempDir()
	var log bytes.Buffer
	s.put("synced", entries(`"a":{"value":1}`))
	s.put("heartbeat", entries(`"a":{"value":1}`))
	s.put(".tmp", entries(``))
	once(t, hieradata.Config{Store: s, Dir: dir, Log: hclog.New(&hclog.LoggerOptions{Output: &log})})
	if got := synced(t, dir).Scopes; !slices.Equal(got, []string{".tmp"}) || beat(t, dir).Sequence != 4 {
		t.Errorf("got scopes %v, want those with files of their own", got)
	}
	if !strings.Contains(log.String(), "scope=synced") || !strings.Contains(log.String(), "scope=heartbeat") {
		t.Errorf("got the log %q, want both scopes named", log.String())
	}
}

func TestOneSyncAtATime(t *testing.T) {
	s, dir := newStore(), t.TempDir()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- hieradata.New(hieradata.Config{Store: s, Dir: dir}).Run(ctx) }()
	for deadline := time.Now().Add(10 * time.Second); !exists(filepath.Join(dir, "heartbeat.json")); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the first sync has not ended after 10s")
		}
	}
	err := hieradata.New(hieradata.Config{Store: s, Dir: dir}).Once(t.Context())
	if err == nil || !strings.Contains(err.Error(), "another bellpull-hiera sync") {
		t.Errorf("got %v, want an error about the other sync", err)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("got %v from a run that was told to end, want none", err)
	}
	once(t, hieradata.Config{Store: s, Dir: dir})
}

// run starts a sync inside a synctest bubble, and lets it load what there is.
func run(t *testing.T, cfg hieradata.Config) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- hieradata.New(cfg).Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("got %v from Run, want none", err)
		}
	})
	pass(10 * time.Millisecond)
}

// pass lets time go by and the sync do its work.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func TestRunFollowsChanges(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		run(t, hieradata.Config{Store: s, Dir: dir})
		s.put("common", entries(`"a":{"value":1}`))
		s.put("group/web", entries(`"a":{"value":2}`))
		pass(10 * time.Millisecond)
		if got := synced(t, dir).Scopes; !slices.Equal(got, []string{"common", "group/web"}) {
			t.Errorf("got scopes %v", got)
		}
		if got := read(t, filepath.Join(dir, "group=2Fweb.json")); !strings.Contains(got, `"revision":3`) {
			t.Errorf("got %q, want revision 3", got)
		}
		s.put("common", "")
		s.put("group/web", entries(`"a":{"value":3}`))
		pass(10 * time.Millisecond)
		if got := synced(t, dir).Scopes; !slices.Equal(got, []string{"group/web"}) || exists(filepath.Join(dir, "common.json")) {
			t.Errorf("got scopes %v after a deletion", got)
		}
		if got := read(t, filepath.Join(dir, "group=2Fweb.json")); !strings.Contains(got, `"revision":5`) {
			t.Errorf("got %q, want revision 5", got)
		}
		if got := s.loaded(); got != 1 {
			t.Errorf("got %d full loads, want 1", got)
		}
		pass(10 * time.Minute)
		if got := s.loaded(); got != 2 {
			t.Errorf("got %d full loads after 10 minutes, want 2", got)
		}
	})
}

func TestHeartbeatIsWhenTheFilesWereCurrent(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		run(t, hieradata.Config{Store: s, Dir: dir})
		age := func() time.Duration { return time.Since(beat(t, dir).Time) }
		s.put("common", entries(``))
		for range 10 {
			pass(29 * time.Second)
			if got := age(); got > 30*time.Second {
				t.Fatalf("got a heartbeat %v old in quiet times, want at most 30s", got)
			}
		}
		if got := beat(t, dir).Sequence; got != 2 {
			t.Errorf("got sequence %d, want 2", got)
		}

		s.change(func() { s.away = true })
		last := beat(t, dir)
		pass(10 * time.Minute)
		if got := beat(t, dir); got != last {
			t.Errorf("got heartbeat %v while the store was away, want %v", got, last)
		}
		s.change(func() { s.away = false })
		pass(time.Minute)
		if got := age(); got > 30*time.Second {
			t.Errorf("got a heartbeat %v old after the store came back", got)
		}

		// The pauses begin anew: what lags for a moment is soon read.
		s.change(func() { s.lag = map[schemas.Scope]message{"late": {}} })
		s.put("late", entries(``))
		pass(50 * time.Millisecond)
		s.change(func() { s.lag = nil })
		pass(time.Second)
		if !exists(filepath.Join(dir, "late.json")) {
			t.Error("a document that came 50ms after its announcement is not read a second later")
		}

		// A change that was never announced: the position tells.
		s.change(func() { s.mute = true })
		s.put("common", entries(`"a":{"value":1}`))
		pass(31 * time.Second)
		if got := read(t, filepath.Join(dir, "common.json")); !strings.Contains(got, `"revision":4`) {
			t.Errorf("got %q, want the unannounced revision 4", got)
		}
		if got := age(); got > 30*time.Second {
			t.Errorf("got a heartbeat %v old after an unannounced change", got)
		}
	})
}

func TestHeartbeatWaitsForWhatWasAnnounced(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		s.put("common", entries(`"a":{"value":"older"}`))
		older := s.messages["common"]
		s.put("common", entries(`"a":{"value":"old"}`))
		s.put("known", entries(``))
		run(t, hieradata.Config{Store: s, Dir: dir})
		last := beat(t, dir)
		// Only a replica that lags answers.
		s.change(func() { s.lag = map[schemas.Scope]message{"common": older, "known": {}, "new": {}} })
		s.put("common", entries(`"a":{"value":"new"}`))
		s.put("known", entries(``))
		s.put("new", entries(``))
		pass(time.Minute)
		if got := beat(t, dir); got != last {
			t.Errorf("got heartbeat %v while a replica lags, want %v", got, last)
		}
		if got := read(t, filepath.Join(dir, "common.json")); !strings.Contains(got, `"old"`) {
			t.Errorf("got %q, want the old document until the new one is read", got)
		}
		if !exists(filepath.Join(dir, "known.json")) {
			t.Error("a file is gone because a replica does not know the scope yet")
		}
		s.change(func() { s.lag = nil })
		pass(time.Minute)
		if got := read(t, filepath.Join(dir, "common.json")); !strings.Contains(got, `"new"`) {
			t.Errorf("got %q, want the new document", got)
		}
		if got := beat(t, dir); got.Sequence != 7 {
			t.Errorf("got heartbeat %v, want sequence 7", got)
		}
	})
}

func TestBucketThatWentBackIsNotBelieved(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		s.put("a", entries(`"a":{"value":"new"}`))
		s.put("b", entries(`"a":{"value":"new"}`))
		var log bytes.Buffer
		run(t, hieradata.Config{Store: s, Dir: dir, Log: hclog.New(&hclog.LoggerOptions{Output: &log})})
		last, files := beat(t, dir), contents(t, dir)
		s.change(func() {
			s.sequence, s.messages = 2, map[schemas.Scope]message{"a": {2, entries(`"a":{"value":"old"}`)}}
		})
		pass(11 * time.Minute)
		after := contents(t, dir)
		if after["a.json"] != files["a.json"] || after["b.json"] != files["b.json"] || beat(t, dir) != last {
			t.Errorf("got files %v, want the last good ones and no heartbeat", after)
		}
		if !strings.Contains(log.String(), "bucket went back from 3 to 2; if it was restored, run bellpull init --new-id") {
			t.Errorf("got the log %q", log.String())
		}
	})
}

func TestAnotherBucketIsASecondLook(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		for _, scope := range []schemas.Scope{"stays", "late", "gone", "deleted"} {
			s.put(scope, entries(`"a":{"value":1}`))
		}
		run(t, hieradata.Config{Store: s, Dir: dir})
		old := contents(t, dir)
		s.change(func() {
			s.bucket, s.sequence = "b2", 3
			s.messages = map[schemas.Scope]message{"stays": {2, entries(`"a":{"value":2}`)}, "deleted": {3, ""}}
		})
		s.notices <- schemas.Notice{Resync: true}
		pass(time.Second)
		now := contents(t, dir)
		if !strings.Contains(now["stays.json"], `"bucket":"b2","revision":2`) {
			t.Errorf("got %q, want the document of the new bucket", now["stays.json"])
		}
		for _, name := range []string{"late.json", "gone.json", "deleted.json"} {
			if now[name] != old[name] {
				t.Errorf("got %q for %s at the first look, want what it was", now[name], name)
			}
		}
		s.change(func() { s.mute = true })
		s.put("late", entries(`"a":{"value":3}`))
		pass(10 * time.Second)
		now = contents(t, dir)
		if !strings.Contains(now["late.json"], `"bucket":"b2","revision":4`) {
			t.Errorf("got %q, want what the second look found", now["late.json"])
		}
		if got := synced(t, dir); got.Bucket != "b2" || !slices.Equal(got.Scopes, []string{"late", "stays"}) || now["gone.json"] != "" || now["deleted.json"] != "" {
			t.Errorf("got synced.json %+v and files %v after the second look", got, now)
		}
	})
}

func TestAnotherBucketIsFoundWithoutAnAnnouncement(t *testing.T) {
	for name, found := range map[string]func(s *store){
		"by reading":       func(s *store) { s.put("common", entries(``)) },
		"by the heartbeat": func(*store) { pass(16 * time.Second) },
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			synctest.Test(t, func(t *testing.T) {
				s := newStore()
				s.put("common", entries(``))
				run(t, hieradata.Config{Store: s, Dir: dir})
				s.change(func() { s.bucket = "b2" })
				found(s)
				pass(time.Second)
				if got := synced(t, dir).Bucket; got != "b2" {
					t.Errorf("got bucket %s in synced.json, want b2", got)
				}
			})
		})
	}
}

func TestOnceLooksTwiceAtAnotherBucket(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		s.put("gone", entries(``))
		once(t, hieradata.Config{Store: s, Dir: dir})
		s.change(func() { s.bucket, s.messages = "b2", map[schemas.Scope]message{} })
		start := time.Now()
		once(t, hieradata.Config{Store: s, Dir: dir})
		if got := time.Since(start); got != 10*time.Second || exists(filepath.Join(dir, "gone.json")) || len(synced(t, dir).Scopes) > 0 {
			t.Errorf("got the file there: %v, scopes %v after %v, want neither after 10s", exists(filepath.Join(dir, "gone.json")), synced(t, dir).Scopes, got)
		}
	})
}

func TestBucketThatChangesWhileItIsRead(t *testing.T) {
	s, dir := newStore(), t.TempDir()
	s.put("common", entries(``))
	s.onAll = func() { s.bucket = "b2" }
	err := hieradata.New(hieradata.Config{Store: s, Dir: dir}).Once(t.Context())
	if !errors.Is(err, schemas.ErrUnavailable) || exists(filepath.Join(dir, "synced.json")) {
		t.Errorf("got error %v and synced.json there: %v, want an error and none", err, exists(filepath.Join(dir, "synced.json")))
	}
}

func TestReadersSeeWholeFiles(t *testing.T) {
	s, dir := newStore(), t.TempDir()
	long := strings.Repeat("x", 100_000)
	s.put("common", entries(`"a":{"value":"`+long+`"}`))
	cfg := hieradata.Config{Store: s, Dir: dir}
	once(t, cfg)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for range 50 {
			s.put("common", entries(`"a":{"value":"`+long+`"}`))
			if err := hieradata.New(cfg).Once(t.Context()); err != nil {
				t.Error(err)
				return
			}
		}
	}()
	for {
		select {
		case <-done:
			return
		default:
		}
		lines := strings.Split(read(t, filepath.Join(dir, "common.json")), "\n")
		if len(lines) != 3 || lines[2] != "" || len(lines[1]) < len(long) {
			t.Fatalf("got a file of %d lines", len(lines))
		}
	}
}

func TestDiskErrorsAreTold(t *testing.T) {
	s, dir := newStore(), t.TempDir()
	s.put("common", entries(``))
	s.loading = func() {
		if err := os.RemoveAll(filepath.Join(dir, ".tmp")); err != nil {
			t.Error(err)
		}
	}
	err := hieradata.New(hieradata.Config{Store: s, Dir: dir}).Once(t.Context())
	if err == nil || !strings.Contains(err.Error(), "write common.json") {
		t.Errorf("got %v, want an error that names the file", err)
	}
	if exists(filepath.Join(dir, "synced.json")) {
		t.Error("synced.json was written although a file is missing")
	}
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := hieradata.New(hieradata.Config{Store: s, Dir: file}).Once(t.Context()); err == nil {
		t.Error("got no error for a directory that is a file")
	}
}
