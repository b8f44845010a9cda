// Package schemas is the contract that every part of bellpull keeps: what a
// [Scope] and its key are, what a [Document] and its entries look like, how an
// [Event] changes a document, and how a node's scopes merge into one state.
//
// It is a leaf: it does no input or output, holds no state and knows neither
// NATS nor Puppet. All times are passed in.
//
//   - A scope names who is meant: [ParseScope], [Scope.Key], [ScopeFromKey].
//   - A document is what is stored under one scope's key: [ParseDocument],
//     [Document.Marshal].
//   - An event sets or removes one entry: [Document.Apply] is the only way in
//     which bellpull changes a document. Timed events end in the same document
//     in whatever order, and however often, they arrive.
//   - [Merge] answers what a node's hierarchy says now.
//   - [Digester], [Shown], [Applied] and [Compiled] are the records by which a
//     run is proven to have used a state.
//
// Text from outside is parsed strictly: duplicate members, invalid UTF-8,
// trailing data, unknown members and anything over the limits below are
// refused, each fault with its JSON pointer, as an [*InvalidError].
package schemas

import "time"

// Limits that writers and readers share.
const (
	// MaxDocument is the largest document, in bytes of JSON.
	MaxDocument = 900 << 10
	// WarnDocument is the size from which writers warn.
	WarnDocument = 600 << 10
	// MaxDepth is how deep arrays and objects may be nested in a text.
	MaxDepth = 64
	// MaxEntryName is the longest entry name, in bytes.
	MaxEntryName = 512
	// MaxScopeKey is the longest key of a scope, in bytes.
	MaxScopeKey = 200
	// MaxScopeSegments is how many segments a scope may have.
	MaxScopeSegments = 16
	// MaxID is the longest event id, source or owner, in characters.
	MaxID = 256
	// MaxTags is how many tags a run policy may name.
	MaxTags = 32
	// MaxFuture is how far an event's time may be ahead of the writer's clock.
	MaxFuture = 5 * time.Minute
	// MaxAge is how old an event may be, and how long removals are remembered.
	MaxAge = 7 * 24 * time.Hour
	// MaxRemoved is how many removals younger than MaxAge a document keeps.
	MaxRemoved = 1000
	// MaxSeen is how many ids of earlier timeless events an entry remembers.
	MaxSeen = 16
)
