package natskv

import "time"

// What a node and a keeper say to each other, as JSON.

// PermitAsk is a node's request. The node is told by the subject alone.
type PermitAsk struct {
	Action string `json:"action"`           // acquire, renew or release
	Handle string `json:"handle,omitempty"` // of the permit to renew or release
}

// The actions of a [PermitAsk].
const (
	PermitAcquire = "acquire"
	PermitRenew   = "renew"
	PermitRelease = "release"
)

// PermitReply is a keeper's answer. An acquire is answered by any number of
// Waiting and then one Handle or None; the others by one reply.
type PermitReply struct {
	Waiting  bool   `json:"waiting,omitempty"`  // in line; said again every [PermitHeartbeat]
	None     bool   `json:"none,omitempty"`     // there is no limit: run without a permit
	Handle   string `json:"handle,omitempty"`   // granted, or renewed
	Lease    int64  `json:"lease,omitempty"`    // with Handle: milliseconds from the request on
	Released bool   `json:"released,omitempty"` // taken back
	Again    bool   `json:"again,omitempty"`    // this keeper ends: ask anew
	Lapsed   bool   `json:"lapsed,omitempty"`   // the permit is not the node's any more
	Error    string `json:"error,omitempty"`
}

// PermitHeartbeat is how often, about, who stands in line hears that it still does.
const PermitHeartbeat = 15 * time.Second
