package schemas

import "time"

// Reading is what one round trip to the bucket found.
type Reading struct {
	Bucket string    // the bucket's id; "" when the bucket has none: unknown, never empty
	At     time.Time // when the answers were complete
	Scopes []ScopeReading
	Limit  Limit // of simultaneous runs, where it was asked for
}

// ScopeReading is what a reading found of one scope.
type ScopeReading struct {
	Scope    Scope
	Revision uint64    // sequence of the scope's last message; 0 = it never had one
	Time     time.Time // that message's time
	Document Document  // dated; without entries when Deleted, when Err is set, or when Revision is 0
	Deleted  bool      // the last message is a deletion marker
	// Err is nil, or matches [ErrInvalid] when the body is no document (Revision is
	// set), or [ErrUnavailable] when no answer came: the scope is unknown.
	Err error
}

// Notice is a hint that something may have changed; what did is found by reading.
type Notice struct {
	Scope    Scope  // the scope whose key was written
	Revision uint64 // the revision that was announced
	// Resync asks for reading everything: the connection is new, notices were lost,
	// or the bucket's id may be another. Scope and Revision are not set then.
	Resync bool
}
