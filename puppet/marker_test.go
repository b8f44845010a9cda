package puppet_test

import (
	"testing"
	"time"

	"github.com/bellpull/bellpull/schemas"
)

// NATS-02: a key that ran out is a delete. With a marker it is one run; a key that
// is gone without one, as where a limit of age was set on the stream, is found by
// the periodic reading and told, and is no emptied scope.
func TestLoopKeyThatRanOut(t *testing.T) {
	t.Run("with a marker", func(t *testing.T) {
		bubble(t, func(t *testing.T, n *node) {
			n.booked(web, "fw=80")
			n.putReading(web, schemas.ScopeReading{Deleted: true})
			n.pass(time.Hour)
			n.wantRuns(1)
			n.wantApplied(web)
			n.wantLog("run", "fw removed")
		})
	})
	t.Run("without a marker", func(t *testing.T) {
		bubble(t, func(t *testing.T, n *node) {
			n.booked(web, "fw=80")
			n.store.vanish(web)
			n.pass(time.Hour)
			n.wantRuns(0)
			n.wantLog("[ERROR]", "bucket went back from 1 to 0")
			if got := n.status().Faults[string(web)]; got == "" {
				t.Errorf("status %+v tells no fault", n.status())
			}
		})
	})
}
