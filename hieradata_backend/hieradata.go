// Package hieradata keeps a directory of plain data files equal to the bucket,
// one file per scope, for the Puppet function bellpull::data to read; and it
// answers one Hiera key from documents at hand.
//
//   - [New] and [Sync.Run] are the daemon: a full load, then the announced
//     changes, and a full load again now and then. [Sync.Once] is one full load.
//   - [Lookup] answers one key as a node's Hiera would.
//
// The directory holds, all replaced by renaming, so that a reader finds either
// the old or the new file whole:
//
//   - <scope's file name>: two lines of JSON. The first names scope, bucket id,
//     revision and the checksum of the second, which holds the entries.
//   - scopes/XX.json: which scopes have a document, of those whose SHA-256 begins
//     with XX.
//   - synced.json: the bucket's id and the prefixes that are covered. It is first
//     written when a full load has ended, after the lists. A covered scope that is
//     not listed is empty; one that is listed and whose file is missing has been lost.
//   - heartbeat.json: when NATS last confirmed that the files are current. While
//     anything is unread, unreachable or contradictory it is not written, so
//     that its age is the age of the data.
//
// The scopes synced and heartbeat have no data files, since their names are taken.
package hieradata

import (
	"context"
	"time"

	"github.com/bellpull/bellpull/schemas"
)

// Store is where the documents come from. Its errors match [schemas.ErrUnavailable]
// where it gave no answer.
type Store interface {
	// All hands every scope to each, and returns the position that this stands
	// for: every change up to its sequence is in what each was given.
	All(ctx context.Context, each func(schemas.ScopeReading) error) (Position, error)
	// Revisions is like All, but tells of each scope only its last revision, and
	// whether that deleted its document.
	Revisions(ctx context.Context, each func(scope schemas.Scope, revision uint64, deleted bool) error) (Position, error)
	// Read reads some scopes and the bucket's id.
	Read(ctx context.Context, scopes []schemas.Scope) (schemas.Reading, error)
	// Changes announces writes to the bucket until ctx ends. A new connection, the
	// first one too, lost announcements and another bucket id are a resync.
	Changes(ctx context.Context) (<-chan schemas.Notice, error)
	// Position tells where the bucket stands now.
	Position(ctx context.Context) (Position, error)
}

// Position is a place in a bucket's history.
type Position struct {
	Bucket   string    // the bucket's id; "" = it has none
	Sequence uint64    // of the bucket's last message
	At       time.Time // when it was asked for
}
