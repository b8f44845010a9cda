package natskv

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

const (
	defaultHistory = 64
	// duplicates is for how long the repetition of a write is recognised.
	duplicates = 2 * time.Minute
	statusAge  = 30 * 24 * time.Hour
)

// streams is what the bucket is made of, on one server.
func (n names) streams() []jetstream.StreamConfig {
	return []jetstream.StreamConfig{{
		Name: n.stream(), Description: "bellpull: desired state, one document per scope",
		Subjects: []string{n.subject(">")}, MaxMsgsPerSubject: defaultHistory,
		Discard: jetstream.DiscardNew, Duplicates: duplicates, Replicas: 1,
		// Without rollup: its header would let a publisher that may write one key
		// wipe all others.
		AllowDirect: true, DenyDelete: true, DenyPurge: true, AllowAtomicPublish: true,
		RePublish: &jetstream.RePublish{Source: n.subject(">"), Destination: n.changed(">"), HeadersOnly: true},
	}, {
		Name: n.statusStream(), Description: "bellpull: what each node has applied",
		Subjects: []string{n.statuses()}, MaxMsgsPerSubject: 1, MaxAge: statusAge,
		Duplicates: duplicates, Replicas: 1,
		AllowDirect: true, DenyDelete: true, DenyPurge: true,
	}, {
		Name: n.permitsStream(), Description: "bellpull: permits to run",
		Subjects: []string{n.permits()}, MaxMsgsPerSubject: 1,
		Duplicates: duplicates, Replicas: 1,
		AllowDirect: true,
	}}
}

// adopt is have with the settings that bellpull relies on; all others, such as
// placement and size limits, are the operator's. So is the number of replicas
// and of messages kept for each scope.
func adopt(have, want jetstream.StreamConfig) jetstream.StreamConfig {
	out := have
	out.Mirror, out.Sources, out.Sealed, out.NoAck = nil, nil, false, false
	out.Retention, out.Storage, out.Discard = want.Retention, want.Storage, want.Discard
	out.Subjects, out.SubjectTransform, out.RePublish = want.Subjects, nil, want.RePublish
	out.MaxAge, out.Duplicates = want.MaxAge, want.Duplicates
	out.AllowDirect, out.AllowRollup, out.AllowAtomicPublish = want.AllowDirect, false, want.AllowAtomicPublish
	out.DenyDelete, out.DenyPurge = want.DenyDelete, want.DenyPurge
	if out.MaxMsgsPerSubject < 1 || want.MaxMsgsPerSubject == 1 {
		out.MaxMsgsPerSubject = want.MaxMsgsPerSubject
	}
	return out
}

// Difference is a setting of a stream that is not as it should be.
type Difference struct {
	Setting    string // as in the NATS documentation: "allow_direct"
	Have, Want string // JSON; "" = not set
	Fixed      bool   // NATS never changes it: the stream would have to be made anew
}

func (d Difference) String() string {
	return fmt.Sprintf("%s is %s, not %s", d.Setting, d.Have, d.Want)
}

// differences lists what changes between two settings of one stream.
func differences(have, want jetstream.StreamConfig) ([]Difference, error) {
	before, err := members(have)
	if err != nil {
		return nil, err
	}
	after, err := members(want)
	if err != nil {
		return nil, err
	}
	names := maps.Clone(before)
	maps.Copy(names, after)
	var out []Difference
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if before[name] != after[name] {
			out = append(out, Difference{name, before[name], after[name], fixed(name, before[name])})
		}
	}
	return out, nil
}

func fixed(name, have string) bool {
	switch name {
	case "mirror", "sources", "sealed", "storage", "retention":
		return true
	case "deny_delete", "deny_purge":
		return have == "true"
	}
	return false
}

// members gives each setting as a text.
func members(c jetstream.StreamConfig) (map[string]string, error) {
	c.Metadata = nil // the server adds its own
	text, err := json.Marshal(c)
	if err != nil {
		return nil, err
	}
	var raw map[string]json.RawMessage
	if err := json.Unmarshal(text, &raw); err != nil {
		return nil, err
	}
	out := make(map[string]string, len(raw))
	for name, value := range raw {
		out[name] = string(value)
		if name == "max_age" || name == "duplicate_window" {
			if ns, err := strconv.ParseInt(string(value), 10, 64); err == nil {
				out[name] = time.Duration(ns).String()
			}
		}
	}
	return out, nil
}
