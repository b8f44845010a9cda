package natskv_test

import (
	"errors"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/bellpull/bellpull/cmd/internal/natskv"
	"github.com/bellpull/bellpull/cmd/internal/natstest"
	"github.com/bellpull/bellpull/schemas"
)

// The bucket stays one that every KV client reads and writes.
func TestPlainKVClient(t *testing.T) {
	srv := natstest.Start(t)
	b := natstest.Bucket(t, srv)
	kv, err := streams(t, srv).KeyValue(t.Context(), "desired")
	if err != nil {
		t.Fatal(err)
	}
	ctx := within(t, 20*time.Second)

	ours := put(t, b, "group/web", doc(`1`), 0)
	entry, err := kv.Get(ctx, "group.web")
	if err != nil || entry.Revision() != ours || string(entry.Value()) != string(doc(`1`)) {
		t.Fatalf("get = %v, %v", entry, err)
	}
	theirs, err := kv.Put(ctx, "group.web", doc(`2`))
	if err != nil {
		t.Fatal(err)
	}
	if got := read(t, b, "group/web").Scopes[0]; got.Revision != theirs || got.Document.Entries["x"].Value != "2" {
		t.Errorf("read = %+v, want what the client put", got)
	}
	updated, err := kv.Update(ctx, "group.web", []byte("not a document"), theirs)
	if err != nil {
		t.Fatal(err)
	}
	got := read(t, b, "group/web").Scopes[0]
	if got.Revision != updated {
		t.Errorf("revision = %d, want %d", got.Revision, updated)
	}
	wantError(t, got.Err, schemas.ErrInvalid, "group/web")
	if _, err := kv.Update(ctx, "group.web", doc(`3`), ours); !errors.Is(err, jetstream.ErrKeyExists) {
		t.Errorf("update of an old revision: %v, want %v", err, jetstream.ErrKeyExists)
	}
	if err := kv.Delete(ctx, "group.web"); err != nil {
		t.Fatal(err)
	}
	if got := read(t, b, "group/web").Scopes[0]; !got.Deleted || got.Err != nil {
		t.Errorf("read = %+v, want it deleted", got)
	}
	history, err := kv.History(ctx, "group.web")
	if err != nil || len(history) != 4 {
		t.Errorf("history = %d entries, %v, want 4", len(history), err)
	}

	watcher, err := kv.WatchAll(ctx)
	if err != nil {
		t.Fatal(err)
	}
	keys := make(map[string]bool)
	for entry := range watcher.Updates() {
		if entry == nil {
			break
		}
		keys[entry.Key()] = true
	}
	if !keys["group.web"] || !keys["=bucket"] || len(keys) != 2 {
		t.Errorf("watch = %v, want the scope and the bucket's own key", keys)
	}
	status, err := kv.Status(ctx)
	if err != nil || status.History() != 64 {
		t.Errorf("status = %v, %v", status, err)
	}
}

// Nothing may wipe what others have written.
func TestRollupAndPurgeRefused(t *testing.T) {
	srv := natstest.Start(t)
	b := natstest.Bucket(t, srv)
	revision := put(t, b, "common", doc(`1`), 0)
	js := streams(t, srv)
	kv, err := js.KeyValue(t.Context(), "desired")
	if err != nil {
		t.Fatal(err)
	}
	if err := kv.Purge(t.Context(), "common"); err == nil {
		t.Error("a key was purged")
	}
	_, err = js.PublishMsg(t.Context(), &nats.Msg{Subject: "$KV.desired.group.x", Header: nats.Header{"Nats-Rollup": {"all"}}, Data: doc(`1`)})
	if err == nil {
		t.Error("a rollup was stored")
	}
	stream, err := js.Stream(t.Context(), "KV_desired")
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.Purge(t.Context()); err == nil {
		t.Error("the stream was purged")
	}
	if err := stream.DeleteMsg(t.Context(), revision); err == nil {
		t.Error("a message was deleted")
	}
	if got := read(t, b, "common"); got.Bucket == "" || got.Scopes[0].Revision != revision {
		t.Errorf("read = %+v, want all as it was", got)
	}
}

// natskv.Config's zero value: the bucket is called desired.
func TestOtherBucket(t *testing.T) {
	srv := natstest.Start(t)
	natstest.Bucket(t, srv)
	other := natstest.Dial(t, natskv.Config{Servers: []string{srv.URL()}, Bucket: "test-2"})
	if _, err := other.Init(t.Context(), natskv.InitOptions{}); err != nil {
		t.Fatal(err)
	}
	put(t, other, "common", doc(`2`), 0)
	if got := read(t, natstest.Bucket(t, srv), "common").Scopes[0].Revision; got != 0 {
		t.Errorf("revision %d of the first bucket, want none", got)
	}
	if other.Name() != "test-2" {
		t.Errorf("name %q", other.Name())
	}
}
