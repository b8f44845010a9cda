package puppet

import (
	"crypto/sha256"
	"encoding/binary"
	"math/bits"
	"slices"
	"time"

	"github.com/bellpull/bellpull/schemas"
)

// Policy is how an entry's change is to be run, as it is kept on disk.
type Policy struct {
	Next  bool     `json:"next,omitzero"` // no run of its own
	Splay duration `json:"splay,omitzero"`
	Tags  []string `json:"tags,omitempty"`
	Noop  bool     `json:"noop,omitzero"`
}

func policyOf(p schemas.RunPolicy) Policy {
	return Policy{Next: p.Trigger == schemas.TriggerNext, Splay: duration(p.Splay), Tags: p.Tags, Noop: p.Noop}
}

// combine makes one run's policy of those of its entries: no tags beats tags,
// tags unite, and it is a preview only if all asked for one.
func combine(dues []Due) (tags []string, noop bool) {
	noop = true
	whole := false
	for _, d := range dues {
		whole = whole || len(d.Policy.Tags) == 0
		noop = noop && d.Policy.Noop
		tags = append(tags, d.Policy.Tags...)
	}
	if whole {
		return nil, noop
	}
	slices.Sort(tags)
	return slices.Compact(tags), noop
}

// splayDelay spreads a fleet's runs evenly over at most splay: the same delay
// for the same node and event, however often it is asked for.
func splayDelay(splay time.Duration, node, event string) time.Duration {
	if splay <= 0 {
		return 0
	}
	sum := sha256.Sum256([]byte(node + "\x00" + event))
	delay, _ := bits.Mul64(uint64(splay), binary.BigEndian.Uint64(sum[:]))
	return time.Duration(delay)
}

// duration is a time.Duration that JSON shows as text, such as 5m0s.
type duration time.Duration

// MarshalText writes the duration.
func (d duration) MarshalText() ([]byte, error) { return []byte(time.Duration(d).String()), nil }

// UnmarshalText reads what MarshalText writes.
func (d *duration) UnmarshalText(text []byte) error {
	parsed, err := time.ParseDuration(string(text))
	*d = duration(parsed)
	return err
}
