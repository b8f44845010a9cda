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
//   - synced.json: the bucket's id, the prefixes that are covered and the scopes
//     that have a document. It is first written when a full load has ended. A
//     covered scope that it does not name is empty; one that it names and whose
//     file is missing has been lost.
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
	// Read reads some scopes and the bucket's id.
	Read(ctx context.Context, scopes []schemas.Scope) (schemas.Reading, error)
	// Changes announces writes to the bucket until ctx ends; a lost or new
	// connection and another bucket id are announced as a resync.
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
