package schemas

import (
	"time"

	"github.com/go-json-experiment/json"
)

// NodeState is what a node is doing about its desired state.
type NodeState string

// The states of a node.
const (
	NodeUnknown   NodeState = "unknown"   // it has never read its scopes
	NodeConverged NodeState = "converged" // all that starts a run is applied
	NodeWaiting   NodeState = "waiting"   // a run is owed, and its time has not come: quiet period, splay, min_interval
	NodeQueued    NodeState = "queued"    // a run is owed and waits for a permit
	NodeRunning   NodeState = "running"
	NodeLocked    NodeState = "locked"   // a run is owed, and somebody else's run is under way
	NodeDisabled  NodeState = "disabled" // a run is owed, and the agent is disabled
	NodeFailed    NodeState = "failed"   // the last run did not prove what it was for; it is tried again
)

// Status is what a node says of itself: all that a node ever writes. Scopes and
// entry names are in it, values are not.
type Status struct {
	Node    string    `json:"node"` // certname
	Time    time.Time `json:"time"` // since when it has been so
	Version string    `json:"version"`
	Agent   string    `json:"agent,omitzero"` // version of Puppet, by its last report; "" = not known
	Bucket  string    `json:"bucket"`         // id of the bucket that was read last; "" = none
	// Proof says by what runs prove what they used: agent, apply, exit; or fact when
	// a run of the agent proved itself without class bellpull, so that a server that
	// is behind goes unnoticed.
	Proof  string                `json:"proof"`
	Splay  bool                  `json:"splay,omitzero"` // the node spreads its runs (watch.splay)
	State  NodeState             `json:"state"`
	Why    string                `json:"why,omitzero"` // one line
	Scopes map[Scope]StatusScope `json:"scopes"`       // the node's hierarchy; a scope that was never read is not there
	Run    *StatusRun            `json:"run,omitzero"` // the last that has ended
	Permit *StatusPermit         `json:"permit,omitzero"`
	Faults map[string]string     `json:"faults,omitempty"` // what could not be read, and why, by scope; "bucket" for all
}

// MaxStatusNames bounds each list of names in a status.
const MaxStatusNames = 20

// StatusScope is how far a node is with one scope.
type StatusScope struct {
	Wanted uint64 `json:"wanted"` // revision that was read last
	// Applied is the newest revision of which all that starts a run is proven to be
	// applied: Wanted if nothing is pending.
	Applied uint64   `json:"applied"`
	Pending []string `json:"pending,omitempty"` // names of entries that owe a run, at most [MaxStatusNames]
	More    int      `json:"more,omitzero"`     // how many more are pending
	Next    []string `json:"next,omitempty"`    // names of entries that wait for the next run, at most [MaxStatusNames]
}

// StatusRun is how a run went.
type StatusRun struct {
	ID      string `json:"id,omitzero"` // "" = somebody else's
	Outcome string `json:"outcome"`     // changed, unchanged, failed, locked, disabled, timed out
	// Applied tells whether the run proved all that it was for; only then is Outcome the whole truth.
	Applied bool      `json:"applied"`
	Reason  string    `json:"reason,omitzero"`  // why not, in one line
	Failed  []string  `json:"failed,omitempty"` // resources, such as Package[nginx], at most [MaxStatusNames]
	Exit    int       `json:"exit"`             // -1 = not known
	Started time.Time `json:"started"`
	Seconds float64   `json:"seconds"`
	Noop    bool      `json:"noop,omitzero"`
	Tags    []string  `json:"tags,omitempty"`
	Events  []string  `json:"events,omitempty"` // ids of the events that it was for, at most [MaxStatusNames]
	Retry   time.Time `json:"retry,omitzero"`   // when it is tried again; zero = it is not
	Attempt int       `json:"attempt"`          // runs so far for the same state
}

// StatusPermit is where a node stands in the line for a permit.
type StatusPermit struct {
	Asked   time.Time `json:"asked"`
	Granted time.Time `json:"granted,omitzero"` // zero = it waits
	Unknown time.Time `json:"unknown,omitzero"` // since when no keeper has answered; zero = one does
}

// ParseStatus reads a node's status.
func ParseStatus(body []byte) (Status, error) { return parseRecord[Status]("status", body) }

// Marshal returns the status's JSON: always the same bytes for the same status.
func (s Status) Marshal() ([]byte, error) { return json.Marshal(s, json.Deterministic(true)) }
