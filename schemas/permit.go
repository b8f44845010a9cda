package schemas

import (
	"fmt"
	"strconv"
	"time"
)

// Limit is how many nodes may run at the same time.
type Limit struct {
	Known bool // false: it could not be read, which is never "no limit"
	Max   int  // with Known: 0 = no limit
}

// MaxLimit is the largest limit that makes sense to hand out one by one.
const MaxLimit = 10_000

const noLimit = "none"

// ParseLimit reads a limit as operators write it and as it is stored: a number
// from 1 to [MaxLimit], or none. The error matches [ErrInvalid].
func ParseLimit(text string) (Limit, error) {
	if text == noLimit {
		return Limit{Known: true}, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > MaxLimit || text != strconv.Itoa(n) {
		return Limit{}, invalid(fmt.Sprintf("limit %q", clip(text)), "", fmt.Sprintf("must be none or a number from 1 to %d", MaxLimit))
	}
	return Limit{Known: true, Max: n}, nil
}

// String is the inverse of [ParseLimit]; a limit that is not known is unknown.
func (l Limit) String() string {
	switch {
	case !l.Known:
		return "unknown"
	case l.Max == 0:
		return noLimit
	}
	return strconv.Itoa(l.Max)
}

// Permit is the right to run now, one of as many as the limit says.
type Permit struct {
	Handle string    `json:"handle"` // opaque; names the permit to a keeper
	Until  time.Time `json:"until"`  // it may be renewed and given back before this, and has lapsed after
}

// PermitAnswer is one step on the way to a permit.
type PermitAnswer struct {
	Waiting bool   // in line: a keeper answers, and will grant a permit in turn
	Permit  Permit // granted; the last answer
	Err     error  // nobody answers, which says nothing about a limit; asking goes on
}
