package schemas

import (
	"fmt"
	"time"

	"github.com/go-json-experiment/json"
)

// Shown is the record that the fact leaves of what it showed to one run.
type Shown struct {
	Bucket string               `json:"bucket"`
	Run    string               `json:"run,omitzero"` // $BELLPULL_RUN of the run that asked
	PID    int                  `json:"pid,omitzero"` // pid in the agent's run lock, if the fact ran below it
	Time   time.Time            `json:"time"`
	Scopes map[Scope]ShownScope `json:"scopes"`
}

// ShownScope is what the fact knew of one scope.
type ShownScope struct {
	Revision uint64            `json:"revision"`
	Live     bool              `json:"live"`    // read from the bucket, not from the last good state
	Entries  map[string]string `json:"entries"` // digest by entry name
}

// Applied is the watcher's record of what runs are proven to have used.
type Applied struct {
	Bucket string                 `json:"bucket"`
	Time   time.Time              `json:"time"`
	Scopes map[Scope]AppliedScope `json:"scopes"`
}

// AppliedScope is what has been applied of one scope.
type AppliedScope struct {
	Revision  uint64            `json:"revision"`
	Entries   map[string]string `json:"entries"`             // digest by entry name
	Previewed map[string]string `json:"previewed,omitempty"` // digest by name of entries that a noop run has shown
}

// Compiled is what a catalog's compile used: the answer of bellpull::compiled().
type Compiled map[Scope]CompiledScope

// CompiledScope is the document that a compile used of one scope.
type CompiledScope struct {
	Bucket   string    `json:"bucket"`
	Revision uint64    `json:"revision"`
	Until    time.Time `json:"until,omitzero"` // earliest expiry among the entries used; zero = none expires
}

// ParseShown reads a record of the fact.
func ParseShown(body []byte) (Shown, error) { return parseRecord[Shown]("fact record", body) }

// ParseApplied reads the watcher's record.
func ParseApplied(body []byte) (Applied, error) { return parseRecord[Applied]("applied record", body) }

// ParseCompiled reads the file that class bellpull keeps.
func ParseCompiled(body []byte) (Compiled, error) {
	return parseRecord[Compiled]("compiled record", body)
}

func parseRecord[T any](what string, body []byte) (T, error) {
	var record T
	if err := json.Unmarshal(body, &record); err != nil {
		var none T
		return none, invalid(what, "", fmt.Sprintf("is damaged: %v", err))
	}
	return record, nil
}

// Marshal returns the record's JSON: always the same bytes for the same record.
func (s Shown) Marshal() ([]byte, error) { return json.Marshal(s, json.Deterministic(true)) }

// Marshal returns the record's JSON: always the same bytes for the same record.
func (a Applied) Marshal() ([]byte, error) { return json.Marshal(a, json.Deterministic(true)) }
