package natskv_test

import (
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/bellpull/bellpull/cmd/internal/natskv"
	"github.com/bellpull/bellpull/cmd/internal/natstest"
	"github.com/bellpull/bellpull/schemas"
)

func streams(t *testing.T, srv *natstest.Server) jetstream.JetStream {
	t.Helper()
	js, err := jetstream.New(natstest.Conn(t, srv))
	if err != nil {
		t.Fatal(err)
	}
	return js
}

func config(t *testing.T, js jetstream.JetStream, name string) jetstream.StreamConfig {
	t.Helper()
	stream, err := js.Stream(t.Context(), name)
	if err != nil {
		t.Fatalf("stream %s: %v", name, err)
	}
	return stream.CachedInfo().Config
}

// The streams are those of the design, setting by setting.
func TestInitMakesTheStreams(t *testing.T) {
	srv := natstest.Start(t)
	b := natstest.Dial(t, natskv.Config{Servers: []string{srv.URL()}})
	result, err := b.Init(t.Context(), natskv.InitOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if !result.NewID || result.Bucket.ID == "" || time.Since(result.Bucket.Created) > time.Minute {
		t.Errorf("bucket = %+v, want a new id of now", result)
	}
	for i, name := range []string{"KV_desired", "BELLPULL_STATUS_desired", "BELLPULL_PERMITS_desired"} {
		if got := result.Streams[i]; got.Name != name || !got.Created || len(got.Mended) != 0 {
			t.Errorf("stream %d = %+v, want %s made", i, got, name)
		}
	}

	js := streams(t, srv)
	kv := config(t, js, "KV_desired")
	if !slices.Equal(kv.Subjects, []string{"$KV.desired.>"}) || kv.MaxMsgsPerSubject != 64 || kv.Discard != jetstream.DiscardNew ||
		!kv.AllowDirect || !kv.DenyDelete || !kv.DenyPurge || kv.AllowRollup || !kv.AllowAtomicPublish ||
		kv.Storage != jetstream.FileStorage || kv.Replicas != 1 || kv.MaxAge != 0 {
		t.Errorf("documents = %+v", kv)
	}
	if r := kv.RePublish; r == nil || r.Source != "$KV.desired.>" || r.Destination != "bellpull.changed.desired.>" || !r.HeadersOnly {
		t.Errorf("republish = %+v", r)
	}
	status := config(t, js, "BELLPULL_STATUS_desired")
	if !slices.Equal(status.Subjects, []string{"bellpull.status.desired.>"}) || status.MaxMsgsPerSubject != 1 || status.MaxAge != 30*24*time.Hour ||
		!status.AllowDirect || !status.DenyDelete || !status.DenyPurge || status.AllowRollup || status.RePublish != nil {
		t.Errorf("status = %+v", status)
	}
	permits, err := js.Stream(t.Context(), "BELLPULL_PERMITS_desired")
	if err != nil {
		t.Fatal(err)
	}
	if limit, err := permits.GetLastMsgForSubject(t.Context(), "bellpull.permits.desired.limit"); err != nil || string(limit.Data) != "none" {
		t.Errorf("limit = %v, %v, want none", limit, err)
	}
	key, err := permits.GetLastMsgForSubject(t.Context(), "bellpull.permits.desired.key")
	if err != nil || len(key.Data) != 32 {
		t.Errorf("key = %v, %v, want 32 bytes", key, err)
	}
	consumer, err := permits.Consumer(t.Context(), "permits")
	if err != nil {
		t.Fatal(err)
	}
	if c := consumer.CachedInfo().Config; c.FilterSubject != "bellpull.permits.desired.token.*" || c.AckPolicy != jetstream.AckExplicitPolicy || c.MaxDeliver != -1 {
		t.Errorf("consumer = %+v", c)
	}

	// Once more changes nothing.
	put(t, b, "common", doc(`1`), 0)
	again, err := b.Init(t.Context(), natskv.InitOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if again.NewID || again.Bucket != result.Bucket {
		t.Errorf("bucket = %+v, want %+v", again.Bucket, result.Bucket)
	}
	for _, s := range again.Streams {
		if s.Created || len(s.Mended) != 0 {
			t.Errorf("stream %+v, want it as it was", s)
		}
	}
	if now, err := permits.GetLastMsgForSubject(t.Context(), "bellpull.permits.desired.key"); err != nil || now.Sequence != key.Sequence {
		t.Errorf("the key was written anew")
	}
	if got := read(t, b, "common").Scopes[0]; got.Document.Entries["x"].Value != "1" {
		t.Errorf("common = %+v, want it as it was", got)
	}

	fresh, err := b.Init(t.Context(), natskv.InitOptions{NewID: true})
	if err != nil || !fresh.NewID || fresh.Bucket.ID == result.Bucket.ID {
		t.Errorf("bucket = %+v, %v, want another id", fresh.Bucket, err)
	}
	if got := read(t, b).Bucket; got != fresh.Bucket.ID {
		t.Errorf("bucket id = %q, want %q", got, fresh.Bucket.ID)
	}
}

// A bucket of another KV client is taken over with its values, and what the
// operator has chosen beside the design stays.
func TestInitMends(t *testing.T) {
	srv := natstest.Start(t)
	js := streams(t, srv)
	_, err := js.CreateKeyValue(t.Context(), jetstream.KeyValueConfig{Bucket: "desired", History: 5, MaxBytes: 50 << 20, Compression: true})
	if err != nil {
		t.Fatal(err)
	}
	b := natstest.Dial(t, natskv.Config{Servers: []string{srv.URL()}})
	check, err := b.Check(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if s := check.Streams[0]; s.Missing || len(s.Differences) == 0 {
		t.Errorf("check = %+v, want differences", s)
	}
	if s := check.Streams[1]; !s.Missing {
		t.Errorf("check = %+v, want it missing", s)
	}
	if check.BucketErr == nil {
		t.Error("check finds an id, want none")
	}

	put(t, b, "common", doc(`1`), 0)
	result, err := b.Init(t.Context(), natskv.InitOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, d := range result.Streams[0].Mended {
		names = append(names, d.Setting)
	}
	want := []string{"allow_atomic", "allow_rollup_hdrs", "deny_purge", "republish"}
	if !slices.Equal(names, want) {
		t.Errorf("mended %v, want %v", result.Streams[0].Mended, want)
	}
	if got := config(t, js, "KV_desired"); got.MaxMsgsPerSubject != 5 || got.MaxBytes != 50<<20 || got.Compression != jetstream.S2Compression || got.AllowRollup {
		t.Errorf("config = %+v", got)
	}
	if got := read(t, b, "common"); got.Bucket == "" || got.Scopes[0].Revision != 1 {
		t.Errorf("read = %+v, want the value that stood", got)
	}

	if _, err := b.Init(t.Context(), natskv.InitOptions{History: 10}); err != nil {
		t.Fatal(err)
	}
	if got := config(t, js, "KV_desired").MaxMsgsPerSubject; got != 10 {
		t.Errorf("%d messages are kept, want 10", got)
	}
	if got := config(t, js, "BELLPULL_STATUS_desired").MaxMsgsPerSubject; got != 1 {
		t.Errorf("%d statuses are kept for each node, want 1", got)
	}
	check, err = b.Check(t.Context())
	if err != nil || check.BucketErr != nil || check.Bucket.ID == "" {
		t.Errorf("check = %+v, %v", check, err)
	}
	for _, s := range check.Streams {
		if s.Missing || len(s.Differences) != 0 || s.Replicas != 1 {
			t.Errorf("check = %+v, want it right", s)
		}
	}
	if check.Server == "" || check.Version == "" || check.URL != srv.URL() || check.MaxPayload != 1<<20 ||
		check.RoundTrip <= 0 || check.ClockAhead.Abs() > time.Second {
		t.Errorf("check = %+v", check)
	}
}

// A stream that acknowledges nothing would let every writer time out.
func TestInitMendsAnUnacknowledgedStream(t *testing.T) {
	srv := natstest.Start(t)
	js := streams(t, srv)
	if _, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "KV_desired", Subjects: []string{"$KV.desired.>"}, NoAck: true}); err != nil {
		t.Fatal(err)
	}
	b := natstest.Bucket(t, srv)
	if got := config(t, js, "KV_desired"); got.NoAck || got.MaxMsgsPerSubject != 64 {
		t.Errorf("config = %+v, want acknowledgements and 64 messages for each scope", got)
	}
	put(t, b, "common", doc(`1`), 0)
}

func TestInitRefuses(t *testing.T) {
	tests := []struct {
		name string
		cfg  jetstream.StreamConfig
		want []string
	}{
		{"memory", jetstream.StreamConfig{Name: "KV_desired", Subjects: []string{"$KV.desired.>"}, Storage: jetstream.MemoryStorage}, []string{"KV_desired", "storage", "memory"}},
		{"mirror", jetstream.StreamConfig{Name: "KV_desired", Mirror: &jetstream.StreamSource{Name: "origin"}}, []string{"KV_desired", "mirror"}},
		{"no deletes of statuses", jetstream.StreamConfig{Name: "BELLPULL_PERMITS_desired", Subjects: []string{"bellpull.permits.desired.>"}, DenyDelete: true}, []string{"BELLPULL_PERMITS_desired", "deny_delete"}},
		{"another stream has the subjects", jetstream.StreamConfig{Name: "other", Subjects: []string{"$KV.>"}}, []string{"KV_desired", "overlap"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			srv := natstest.Start(t)
			js := streams(t, srv)
			if _, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "origin", Subjects: []string{"origin"}}); err != nil {
				t.Fatal(err)
			}
			if _, err := js.CreateStream(t.Context(), tt.cfg); err != nil {
				t.Fatal(err)
			}
			before := config(t, js, tt.cfg.Name)
			b := natstest.Dial(t, natskv.Config{Servers: []string{srv.URL()}})
			_, err := b.Init(t.Context(), natskv.InitOptions{})
			wantError(t, err, schemas.ErrConflict, tt.want...)
			if after := config(t, js, tt.cfg.Name); after.Storage != before.Storage || after.DenyDelete != before.DenyDelete || !slices.Equal(after.Subjects, before.Subjects) {
				t.Errorf("the stream was changed to %+v", after)
			}
		})
	}
	t.Run("three replicas on one server", func(t *testing.T) {
		b := natstest.Dial(t, natskv.Config{Servers: []string{natstest.Start(t).URL()}})
		_, err := b.Init(t.Context(), natskv.InitOptions{Replicas: 3})
		wantError(t, err, schemas.ErrUnavailable, "KV_desired", "replicas")
	})
	t.Run("no JetStream", func(t *testing.T) {
		srv := natstest.Start(t, noJetStream)
		b := natstest.Dial(t, natskv.Config{Servers: []string{srv.URL()}})
		_, err := b.Init(within(t, 2*time.Second), natskv.InitOptions{})
		wantError(t, err, schemas.ErrUnavailable, "JetStream")
	})
	t.Run("an id that cannot be read", func(t *testing.T) {
		srv := natstest.Start(t)
		b := natstest.Bucket(t, srv)
		if _, err := natstest.Conn(t, srv).Request("$KV.desired.=bucket", []byte("x"), 5*time.Second); err != nil {
			t.Fatal(err)
		}
		_, err := b.Init(t.Context(), natskv.InitOptions{})
		wantError(t, err, schemas.ErrInvalid, "bellpull init")
		if result, err := b.Init(t.Context(), natskv.InitOptions{NewID: true}); err != nil || !result.NewID {
			t.Errorf("init with a new id = %+v, %v", result, err)
		}
	})
}

// Two servers that start at once agree on one id.
func TestInitAtOnce(t *testing.T) {
	srv := natstest.Start(t)
	ids := make([]string, 8)
	var wg sync.WaitGroup
	for i := range ids {
		b := natstest.Dial(t, natskv.Config{Servers: []string{srv.URL()}})
		wg.Go(func() {
			result, err := b.Init(t.Context(), natskv.InitOptions{})
			if err != nil {
				t.Errorf("init: %v", err)
			}
			ids[i] = result.Bucket.ID
		})
	}
	wg.Wait()
	if ids = slices.Compact(ids); len(ids) != 1 || ids[0] == "" {
		t.Errorf("ids = %v, want one", ids)
	}
}

// A deleted id is no id: init writes one.
func TestInitAfterTheIDWasDeleted(t *testing.T) {
	srv := natstest.Start(t)
	b := natstest.Bucket(t, srv)
	before := read(t, b).Bucket
	marker := &nats.Msg{Subject: "$KV.desired.=bucket", Header: nats.Header{"KV-Operation": {"DEL"}}}
	if _, err := natstest.Conn(t, srv).RequestMsg(marker, 5*time.Second); err != nil {
		t.Fatal(err)
	}
	result, err := b.Init(t.Context(), natskv.InitOptions{})
	if err != nil || !result.NewID || result.Bucket.ID == before {
		t.Errorf("init = %+v, %v, want a new id", result, err)
	}
}
