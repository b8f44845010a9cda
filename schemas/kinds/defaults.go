package kinds

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/bmatcuk/doublestar/v4"

	"github.com/bellpull/bellpull/schemas"
)

// keyword is the member at the root of a schema that says what holds for every entry of the kind.
const keyword = "x-bellpull"

// Defaults are what a kind says of every entry of its own, by the member x-bellpull at the root of its schema:
//
//	"x-bellpull": {"ttl": "20m", "run": {"trigger": "next"}, "sensitive": true, "scopes": ["group/*", "node/**"]}
//
// They belong to the kind alone: one that refers to its schema by $ref does not get them.
type Defaults struct {
	TTL       time.Duration     // of an event that has neither a TTL nor a moment of expiry; 0 = none, else at least 1 s
	Run       schemas.RunPolicy // of an event that asks for nothing
	Sensitive bool              // every value is a secret, whatever the event says
	Scopes    []string          // patterns of the scopes that entries may stand in: * is one segment, ** any number; nil = all
}

// IsZero reports whether the kind says nothing.
func (d Defaults) IsZero() bool {
	return d.TTL == 0 && d.Run.IsZero() && !d.Sensitive && len(d.Scopes) == 0
}

// Complete returns a set event with what its kind says of every entry of its own: see [Defaults].
//
// The error is that of [Set.Validate], or a *schemas.InvalidError at /scope for a scope that the kind does not allow.
func (s *Set) Complete(ev schemas.Event) (schemas.Event, error) {
	if err := s.Validate(ev.Kind, ev.Value); err != nil {
		return schemas.Event{}, err
	}
	d := s.kinds[ev.Kind].defaults
	if !d.allows(ev.Scope) {
		return schemas.Event{}, &schemas.InvalidError{What: "event", Faults: []schemas.Fault{{
			Pointer: "/scope", Message: fmt.Sprintf("%s is not allowed for kind %s; allowed are %s", ev.Scope, ev.Kind, strings.Join(d.Scopes, ", ")),
		}}}
	}
	if ev.TTL == 0 && ev.Expires.IsZero() {
		ev.TTL = d.TTL
	}
	if ev.Run.IsZero() {
		ev.Run = d.Run
		ev.Run.Tags = slices.Clone(d.Run.Tags)
	}
	ev.Sensitive = ev.Sensitive || d.Sensitive
	return ev, nil
}

func (d Defaults) allows(scope schemas.Scope) bool {
	return len(d.Scopes) == 0 || slices.ContainsFunc(d.Scopes, func(pattern string) bool {
		ok, err := doublestar.Match(pattern, string(scope))
		return ok && err == nil
	})
}

// readDefaults reads the keyword at the root of the kind's schema. schema is what the keyword itself must look like.
func (k *kind) readDefaults(schema *kind) error {
	given, ok := k.doc[keyword]
	if !ok {
		return nil
	}
	faults := schema.faults(given)
	var wire struct {
		TTL string
		Run struct {
			Trigger schemas.Trigger
			Splay   string
			Tags    []string
			Noop    bool
		}
		Sensitive bool
		Scopes    []string
	}
	if len(faults) == 0 {
		if err := json.Unmarshal([]byte(text(given)), &wire); err != nil { // it keeps its schema
			return fmt.Errorf("decode %s of %s: %w", keyword, k.file.path, err)
		}
		// Both texts are durations, or empty.
		ttl, _ := time.ParseDuration(wire.TTL)
		splay, _ := time.ParseDuration(wire.Run.Splay)
		if wire.TTL != "" && ttl < time.Second {
			faults = append(faults, schemas.Fault{Pointer: "/ttl", Message: "must be at least 1s"})
		}
		for i, pattern := range wire.Scopes {
			if message := patternFault(pattern); message != "" {
				faults = append(faults, schemas.Fault{Pointer: "/scopes/" + strconv.Itoa(i), Message: message})
			}
		}
		k.defaults = Defaults{
			TTL: ttl, Sensitive: wire.Sensitive, Scopes: wire.Scopes,
			Run: schemas.RunPolicy{Trigger: wire.Run.Trigger, Splay: splay, Tags: wire.Run.Tags, Noop: wire.Run.Noop},
		}
	}
	if len(faults) == 0 {
		return nil
	}
	for i := range faults {
		faults[i].Pointer = "/" + keyword + faults[i].Pointer
	}
	return &schemas.InvalidError{What: k.file.path, Faults: faults}
}

// patternFault says why a pattern of scopes would never do what was meant.
func patternFault(pattern string) string {
	switch {
	case !doublestar.ValidatePattern(pattern):
		return fmt.Sprintf("%q is no pattern; write such as common, group/* or node/**", pattern)
	case pattern == "" || strings.HasPrefix(pattern, "/") || strings.HasSuffix(pattern, "/"):
		return fmt.Sprintf("%q matches no scope: one neither begins nor ends with /", pattern)
	}
	return ""
}

// misplaced finds the keyword below the root, where it would be without effect.
func misplaced(doc any) []schemas.Fault {
	var faults []schemas.Fault
	walk(doc, "", func(pointer string, schema map[string]any) {
		if _, ok := schema[keyword]; ok && pointer != "" {
			faults = append(faults, schemas.Fault{Pointer: pointer + "/" + keyword, Message: "belongs at the root of the schema"})
		}
	})
	return faults
}
