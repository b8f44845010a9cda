package natskv_test

import (
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/bellpull/bellpull/cmd/internal/natskv"
	"github.com/bellpull/bellpull/cmd/internal/natstest"
	"github.com/bellpull/bellpull/schemas"
)

func TestReadAfterWrite(t *testing.T) {
	b := natstest.Bucket(t, natstest.Start(t))
	before := time.Now().Add(-time.Minute)
	first := put(t, b, "node/web1.example.com", doc(`1`), 0)
	second := put(t, b, "common", doc(`{"port":8443}`), 0)

	reading := read(t, b, "node/web1.example.com", "group/web", "common")
	if reading.Bucket == "" || reading.At.Before(before) {
		t.Errorf("bucket %q at %v, want an id and now", reading.Bucket, reading.At)
	}
	want := []struct {
		scope    schemas.Scope
		revision uint64
		value    schemas.Value
	}{{"node/web1.example.com", first, "1"}, {"group/web", 0, ""}, {"common", second, `{"port":8443}`}}
	for i, w := range want {
		got := reading.Scopes[i]
		if got.Err != nil || got.Scope != w.scope || got.Revision != w.revision || got.Document.Entries["x"].Value != w.value {
			t.Errorf("scope %d: got %+v, want %+v", i, got, w)
		}
		if w.revision != 0 && (got.Time.Before(before) || !got.Document.Entries["x"].Time.Equal(got.Time)) {
			t.Errorf("scope %s: entry of %v in a message of %v, want the message's time", got.Scope, got.Document.Entries["x"].Time, got.Time)
		}
	}
}

// Each body was put into the bucket by another client.
func TestReadWhatOthersWrote(t *testing.T) {
	server := natstest.Start(t)
	b := natstest.Bucket(t, server)
	nc := natstest.Conn(t, server)
	tests := []struct {
		name    string
		headers nats.Header
		body    string
		deleted bool
		invalid bool
	}{
		{name: "a document", body: `{"bellpull":1,"entries":{"x":{"value":1}}}`},
		{name: "no document", body: `{"hello":"world"}`, invalid: true},
		{name: "an empty body", invalid: true},
		{name: "a deletion", headers: nats.Header{"KV-Operation": {"DEL"}}, deleted: true},
		{name: "a purge marker", headers: nats.Header{"KV-Operation": {"PURGE"}}, deleted: true},
		{name: "NATS-02: an expiry marker", headers: nats.Header{"Nats-Marker-Reason": {"MaxAge"}}, deleted: true},
		{
			name: "forged headers", body: `{"bellpull":1,"entries":{"x":{"value":1}}}`,
			headers: nats.Header{"Nats-Sequence": {"9999"}, "Nats-Time-Stamp": {"2001-01-01T00:00:00Z"}},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			m := &nats.Msg{Subject: "$KV.desired.group.others", Header: tt.headers, Data: []byte(tt.body)}
			if _, err := nc.RequestMsgWithContext(within(t, 5*time.Second), m); err != nil {
				t.Fatal(err)
			}
			position, err := b.Position(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			got := read(t, b, "group/others").Scopes[0]
			if got.Revision != position.Sequence || time.Since(got.Time) > time.Minute {
				t.Errorf("revision %d of %v, want %d and now", got.Revision, got.Time, position.Sequence)
			}
			if got.Deleted != tt.deleted {
				t.Errorf("deleted = %v, want %v", got.Deleted, tt.deleted)
			}
			if tt.deleted && !got.Document.SupersededBefore.Equal(got.Time) {
				t.Errorf("superseded before %v, want the marker's time %v", got.Document.SupersededBefore, got.Time)
			}
			if tt.invalid {
				wantError(t, got.Err, schemas.ErrInvalid, "group/others")
			} else if got.Err != nil {
				t.Errorf("error = %v", got.Err)
			}
			if entries := len(got.Document.Entries); entries != 0 == (tt.deleted || tt.invalid) {
				t.Errorf("%d entries", entries)
			}
		})
	}
}

func TestReadWithoutID(t *testing.T) {
	server := natstest.Start(t)
	b := natstest.Bucket(t, server)
	put(t, b, "common", doc(`1`), 0)
	deleted := &nats.Msg{Subject: "$KV.desired.=bucket", Header: nats.Header{"KV-Operation": {"DEL"}}}
	if _, err := natstest.Conn(t, server).RequestMsg(deleted, 5*time.Second); err != nil {
		t.Fatal(err)
	}
	if got := read(t, b, "common"); got.Bucket != "" || got.Scopes[0].Revision == 0 {
		t.Errorf("bucket %q, revision %d, want no id but the document", got.Bucket, got.Scopes[0].Revision)
	}
}

func TestBucketMissing(t *testing.T) {
	tests := []struct {
		name      string
		configure func(*server.Options)
	}{
		{"no stream", func(*server.Options) {}},
		{"no JetStream", noJetStream},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b := natstest.Dial(t, natskv.Config{Servers: []string{natstest.Start(t, tt.configure).URL()}})
			start := time.Now()
			_, err := b.Read(within(t, 600*time.Millisecond), []schemas.Scope{"common"})
			wantError(t, err, schemas.ErrUnavailable, "bellpull init", "desired")
			if took := time.Since(start); took < 300*time.Millisecond || took > time.Second {
				t.Errorf("took %v, want the deadline of 600 ms to be used, and kept", took)
			}
			_, err = b.Put(within(t, 300*time.Millisecond), "common", doc(`1`), 0)
			wantError(t, err, schemas.ErrUnavailable, "bellpull init")
		})
	}
}

func noJetStream(o *server.Options) { o.JetStream = false }

// While a cluster elects a leader nobody serves the stream: readers wait.
func TestReadWaitsForTheStream(t *testing.T) {
	server := natstest.Start(t)
	b := natstest.Dial(t, natskv.Config{Servers: []string{server.URL()}})
	type result struct {
		reading schemas.Reading
		err     error
	}
	results := make(chan result, 1)
	go func() {
		reading, err := b.Read(within(t, 20*time.Second), []schemas.Scope{"common"})
		results <- result{reading, err}
	}()
	eventually(t, "the first requests have come", func() bool {
		vars, err := server.Embedded().Varz(nil)
		return err == nil && vars.InMsgs >= 2
	})
	natstest.Bucket(t, server)
	// The id is written last: the first answers may come before it is there.
	if got := <-results; got.err != nil || len(got.reading.Scopes) != 1 || got.reading.Scopes[0].Err != nil {
		t.Errorf("read = %+v, %v", got.reading, got.err)
	}
}

func TestConfigRefused(t *testing.T) {
	t.Setenv("BELLPULL_TEST_SECRET", "secret")
	tests := []struct {
		name string
		cfg  natskv.Config
		want string
	}{
		{"bucket", natskv.Config{Bucket: "a.b"}, `"a.b"`},
		{"wildcard bucket", natskv.Config{Bucket: "*"}, "bucket"},
		{"server", natskv.Config{Servers: []string{"nats://us er:secret@[::1"}}, "/0"},
		{"certname with a wildcard", natskv.Config{Node: "*"}, "certname"},
		{"certname of two tokens", natskv.Config{Node: "web1/x"}, "certname"},
		{"no CA file", natskv.Config{TLS: natskv.TLS{CA: "/nonexistent/ca.pem"}}, "/nonexistent/ca.pem"},
		{"no certificate", natskv.Config{TLS: natskv.TLS{Cert: "/nonexistent/cert.pem", Key: "/nonexistent/key.pem"}}, "/nonexistent/cert.pem"},
		{"no credentials file", natskv.Config{Creds: "/nonexistent/user.creds"}, "/nonexistent/user.creds"},
		{"no nkey file", natskv.Config{NKey: "/nonexistent/user.nk"}, "/nonexistent/user.nk"},
		{"no CA variable", natskv.Config{TLS: natskv.TLS{CA: "env:BELLPULL_TEST_NONE"}}, "nats.tls.ca: the variable BELLPULL_TEST_NONE"},
		{"no credentials variable", natskv.Config{Creds: "env:BELLPULL_TEST_NONE"}, "nats.creds: the variable BELLPULL_TEST_NONE"},
		{"no nkey variable", natskv.Config{NKey: "env:BELLPULL_TEST_NONE"}, "nats.nkey: the variable BELLPULL_TEST_NONE"},
		{"no CA in the variable", natskv.Config{TLS: natskv.TLS{CA: "env:BELLPULL_TEST_SECRET"}}, "nats.tls.ca: env:BELLPULL_TEST_SECRET"},
		{"no credentials in the variable", natskv.Config{Creds: "env:BELLPULL_TEST_SECRET"}, "nats.creds: env:BELLPULL_TEST_SECRET"},
		{"no nkey in the variable", natskv.Config{NKey: "env:BELLPULL_TEST_SECRET"}, "nats.nkey: env:BELLPULL_TEST_SECRET"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for name, open := range map[string]func() error{
				"Dial":    func() error { _, err := natskv.Dial(within(t, time.Second), tt.cfg); return err },
				"Connect": func() error { _, err := natskv.Connect(within(t, time.Second), tt.cfg); return err },
			} {
				err := open()
				wantError(t, err, schemas.ErrInvalid, tt.want)
				if strings.Contains(err.Error(), "secret") {
					t.Errorf("%s: error = %q, shows a password", name, err)
				}
			}
		})
	}
}
