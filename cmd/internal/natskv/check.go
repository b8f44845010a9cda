package natskv

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/bellpull/bellpull/schemas"
)

// StreamCheck is what [Bucket.Check] found.
type StreamCheck struct {
	Server, Version string
	URL             string // without user and password
	RoundTrip       time.Duration
	MaxPayload      int64         // bytes; documents need [schemas.MaxDocument] and some headers
	ClockAhead      time.Duration // the server's clock against ours, to within RoundTrip
	Bucket          schemas.BucketInfo
	BucketErr       error // why Bucket is not known
	Streams         []StreamState
}

// StreamState is one stream as it stands.
type StreamState struct {
	Name            string
	Missing         bool
	Differences     []Difference // from what [Bucket.Init] makes
	Replicas        int
	Messages, Bytes uint64
}

// Check compares the streams with what [Bucket.Init] makes and tells about the
// server. A missing stream or id is a finding, not an error.
func (b *Bucket) Check(ctx context.Context) (StreamCheck, error) {
	ctx, cancel := bounded(ctx, CallTimeout)
	defer cancel()
	var check StreamCheck
	for _, want := range b.streams() {
		asked := time.Now()
		info, err := b.streamInfo(ctx, want.Name)
		if errors.Is(err, schemas.ErrNotFound) {
			check.Streams = append(check.Streams, StreamState{Name: want.Name, Missing: true})
			continue
		}
		if err != nil {
			return StreamCheck{}, fmt.Errorf("stream %s: %w", want.Name, err)
		}
		check.RoundTrip = time.Since(asked)
		check.ClockAhead = info.TimeStamp.Sub(asked.Add(check.RoundTrip / 2))
		wrong, err := differences(info.Config, adopt(info.Config, want))
		if err != nil {
			return StreamCheck{}, err
		}
		check.Streams = append(check.Streams, StreamState{
			Name: want.Name, Differences: wrong, Replicas: info.Config.Replicas,
			Messages: info.State.Msgs, Bytes: info.State.Bytes,
		})
	}
	check.Server, check.Version = b.nc.ConnectedServerName(), b.nc.ConnectedServerVersion()
	check.URL, check.MaxPayload = b.nc.ConnectedUrlRedacted(), b.nc.MaxPayload()
	check.Bucket, check.BucketErr = b.checkID(ctx, check.Streams[0])
	return check, nil
}

func (b *Bucket) checkID(ctx context.Context, documents StreamState) (schemas.BucketInfo, error) {
	if documents.Missing {
		return schemas.BucketInfo{}, b.explain(nats.ErrNoResponders)
	}
	info, err := b.info(ctx)
	if err == nil && info.ID == "" {
		err = fmt.Errorf("%w: bucket %q has no id; run `bellpull init`", schemas.ErrNotFound, b.bucket)
	}
	return info, err
}
