package puppet

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
)

const (
	// changesFile says what the last run was started for.
	changesFile = "changes.json"
	// maxVariable bounds a variable of the run's environment, in bytes; Linux allows 128 KiB.
	maxVariable = 32 << 10
)

// changes is the file of which $BELLPULL_CHANGES is the path.
type changes struct {
	Version int      `json:"bellpull"`
	Run     string   `json:"run"`
	Noop    bool     `json:"noop"`
	Tags    []string `json:"tags"`
	Changes []change `json:"changes"`
}

type change struct {
	Scope string `json:"scope"`
	Entry string `json:"entry"` // "" = the scope as a whole
	Why   string `json:"why"`   // new, changed, removed, expired, or what an earlier run left unproven
	Event string `json:"event,omitzero"`
}

// hand writes the file of what the run is for into dir, and returns the run's
// additions to the environment:
//
//	BELLPULL_RUN       the run's id
//	BELLPULL_WANTED    path of the file that says what is wanted, as digests
//	BELLPULL_CHANGES   path of the file that says what has changed
//	BELLPULL_SCOPES    the scopes that have changed, parted by commas
//	BELLPULL_ENTRIES   the entries that have changed, each "scope entry" on a line of its own
//	BELLPULL_TAGS      what the run is limited to, parted by commas; not set without a limit
//	BELLPULL_NOOP      true if it is a preview only; else not set
//
// BELLPULL_SCOPES and BELLPULL_ENTRIES are cut at 32 KiB; the file is whole.
func (o Order) hand(dir string) ([]string, error) {
	file := changes{Version: 1, Run: o.ID, Noop: o.Noop, Tags: o.Tags, Changes: []change{}}
	var scopes, entries []string
	for _, d := range o.Changes {
		file.Changes = append(file.Changes, change{string(d.Scope), d.Entry, d.Why, d.Event})
		scopes = append(scopes, string(d.Scope))
		if d.Entry != "" {
			entries = append(entries, string(d.Scope)+" "+d.Entry)
		}
	}
	body, err := json.Marshal(file, json.FormatNilSliceAsNull(false))
	if err != nil {
		return nil, fmt.Errorf("say what the run is for: %w", err)
	}
	path := filepath.Join(dir, changesFile)
	if err := os.WriteFile(path, append(body, '\n'), 0o600); err != nil {
		return nil, fmt.Errorf("say what the run is for: %w", err)
	}
	slices.Sort(scopes)
	out := []string{
		"BELLPULL_RUN=" + o.ID, "BELLPULL_WANTED=" + o.Wanted, "BELLPULL_CHANGES=" + path,
		"BELLPULL_SCOPES=" + bounded(slices.Compact(scopes), ","), "BELLPULL_ENTRIES=" + bounded(entries, "\n"),
	}
	if len(o.Tags) > 0 {
		out = append(out, "BELLPULL_TAGS="+strings.Join(o.Tags, ","))
	}
	if o.Noop {
		out = append(out, "BELLPULL_NOOP=true")
	}
	return out, nil
}

// bounded joins as many of the words as a variable may hold.
func bounded(words []string, between string) string {
	size := 0
	for i, word := range words {
		if size += len(word) + len(between); size > maxVariable {
			words = words[:i]
			break
		}
	}
	return strings.Join(words, between)
}
