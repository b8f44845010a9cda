package natskv

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/bellpull/bellpull/schemas"
)

// ScopeInfo is one key of the bucket.
type ScopeInfo struct {
	Key      string
	Scope    schemas.Scope // "" when Foreign
	Revision uint64
	Time     time.Time
	Deleted  bool // its last message is a deletion marker
	Foreign  bool // another client's key: no scope maps to it
}

// Scopes lists the keys of the scopes that begin with prefix, sorted; deleted
// ones too. Keys that no scope maps to are listed, marked, when prefix is "".
// The bucket's own key is not.
func (b *Bucket) Scopes(ctx context.Context, prefix string) ([]ScopeInfo, error) {
	ctx, cancel := bounded(ctx, manageTimeout)
	defer cancel()
	infos := make(map[string]ScopeInfo) // a key written meanwhile comes twice
	err := b.scan(ctx, b.stream(), jetstream.ConsumerConfig{
		DeliverPolicy: jetstream.DeliverLastPerSubjectPolicy, FilterSubject: b.subject(">"), HeadersOnly: true,
	}, func(m message) error {
		scope, err := schemas.ScopeFromKey(m.key)
		if m.key != schemas.BucketKey && strings.HasPrefix(string(scope), prefix) {
			infos[m.key] = ScopeInfo{
				Key: m.key, Scope: scope, Revision: m.revision, Time: m.time,
				Deleted: m.deleted(), Foreign: err != nil,
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("list scopes: %w", err)
	}
	return slices.SortedFunc(maps.Values(infos), func(a, b ScopeInfo) int { return strings.Compare(a.Key, b.Key) }), nil
}
