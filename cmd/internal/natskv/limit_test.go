package natskv_test

import (
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/bellpull/bellpull/cmd/internal/natskv"
	"github.com/bellpull/bellpull/cmd/internal/natstest"
	"github.com/bellpull/bellpull/schemas"
)

const permitsStream = "BELLPULL_PERMITS_desired"

func TestLimit(t *testing.T) {
	b := natstest.Bucket(t, natstest.Start(t))
	scopes := []schemas.Scope{"common"}
	if got, err := b.Limit(t.Context()); got != (schemas.Limit{Known: true}) || err != nil {
		t.Errorf("limit of a new bucket: %v, %v, want none", got, err)
	}
	for _, want := range []schemas.Limit{{Known: true, Max: 50}, {Known: true, Max: 3}, {Known: true}} {
		if err := b.SetLimit(t.Context(), want); err != nil {
			t.Fatal(err)
		}
		if got, err := b.Limit(t.Context()); got != want || err != nil {
			t.Errorf("limit %v, %v, want %v", got, err, want)
		}
		reading, err := b.ReadNode(t.Context(), scopes)
		if err != nil || reading.Limit != want || len(reading.Scopes) != 1 || reading.Bucket == "" {
			t.Errorf("reading %+v, %v, want limit %v", reading, err, want)
		}
		if read := read(t, b, "common"); read.Limit.Known {
			t.Errorf("limit %v where nobody asked for it", read.Limit)
		}
	}
	for _, wrong := range []schemas.Limit{{}, {Known: true, Max: -1}, {Known: true, Max: schemas.MaxLimit + 1}} {
		if err := b.SetLimit(t.Context(), wrong); !errors.Is(err, schemas.ErrInvalid) {
			t.Errorf("set %+v: %v, want it invalid", wrong, err)
		}
	}
}

// A limit that cannot be read is unknown, never none; the scopes are read all the same.
func TestLimitUnknown(t *testing.T) {
	for name, spoil := range map[string]func(*testing.T, jetstream.JetStream){
		"the stream is missing": func(t *testing.T, js jetstream.JetStream) {
			if err := js.DeleteStream(t.Context(), permitsStream); err != nil {
				t.Fatal(err)
			}
		},
		"there is no limit in it": func(t *testing.T, js jetstream.JetStream) {
			stream, err := js.Stream(t.Context(), permitsStream)
			if err == nil {
				err = stream.Purge(t.Context(), jetstream.WithPurgeSubject("bellpull.permits.desired.limit"))
			}
			if err != nil {
				t.Fatal(err)
			}
		},
		"it is no limit": func(t *testing.T, js jetstream.JetStream) {
			if _, err := js.Publish(t.Context(), "bellpull.permits.desired.limit", []byte("0")); err != nil {
				t.Fatal(err)
			}
		},
		"it is empty": func(t *testing.T, js jetstream.JetStream) {
			if _, err := js.Publish(t.Context(), "bellpull.permits.desired.limit", nil); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			server := natstest.Start(t)
			b := natstest.Bucket(t, server)
			revision := put(t, b, "common", doc(`1`), 0)
			js, err := jetstream.New(natstest.Conn(t, server))
			if err != nil {
				t.Fatal(err)
			}
			spoil(t, js)
			if got, err := b.Limit(within(t, 2*time.Second)); err == nil || got.Known {
				t.Errorf("limit %v, %v, want an error", got, err)
			}
			if _, err := b.MendPermits(within(t, 2*time.Second)); err == nil {
				t.Error("permits were mended without a limit")
			}
			got, err := b.ReadNode(within(t, 2*time.Second), []schemas.Scope{"common"})
			if err != nil || got.Limit.Known || got.Scopes[0].Revision != revision {
				t.Errorf("reading %+v, %v, want the scope and no limit", got, err)
			}
		})
	}
}

// Several that mend at once make what the limit says together, and none of them
// trips over another.
func TestMendPermitsTogether(t *testing.T) {
	server := natstest.Start(t)
	buckets := []*natskv.Bucket{natstest.Bucket(t, server)}
	for range 3 {
		buckets = append(buckets, natstest.Dial(t, natskv.Config{Servers: []string{server.URL()}}))
	}
	for _, limit := range []int{300, 0, 40, 41, 2} {
		if err := buckets[0].SetLimit(t.Context(), schemas.Limit{Known: true, Max: limit}); err != nil {
			t.Fatal(err)
		}
		var all sync.WaitGroup
		for _, b := range buckets {
			all.Go(func() {
				if _, err := b.MendPermits(t.Context()); err != nil {
					t.Errorf("limit %d: %v", limit, err)
				}
			})
		}
		all.Wait()
		if got, err := buckets[0].PermitCount(t.Context()); err != nil || got.Tokens != limit || got.Limit.Max != limit {
			t.Errorf("%+v, %v, want %d", got, err, limit)
		}
	}
}
