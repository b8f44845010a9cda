package gateway_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bellpull/bellpull/cmd/internal/natskv"
	"github.com/bellpull/bellpull/cmd/internal/natstest"
)

// NATS-04: conflicts are told as such on one and on three replicas. Of two events
// for the same revision exactly one is stored, the other is a 409 with the revision
// that stands.
func TestNATS04_CompareAndSet(t *testing.T) {
	for _, replicas := range []int{1, 3} {
		t.Run(fmt.Sprintf("%d replicas", replicas), func(t *testing.T) {
			if replicas > 1 && testing.Short() {
				t.Skip("a cluster takes a while: not in a short run")
			}
			url := ""
			if replicas == 1 {
				nats := natstest.Start(t)
				natstest.Bucket(t, nats)
				url = nats.URL()
			} else {
				url = clusterWithBucket(t)
			}
			gateways := []*process{start(t, url, settings), start(t, url, settings)}
			revision := uint64(0)
			for round := range 200 {
				var statuses [2]int
				var bodies [2]string
				var wg sync.WaitGroup
				for n, p := range gateways {
					wg.Go(func() {
						statuses[n], bodies[n] = p.send("POST", "/v1/events", "application/cloudevents+json", fmt.Sprintf(
							`{"specversion":"1.0","type":"bellpull.set","id":"%d-%d","source":"t","time":%q,"subject":"group/web","entry":"x%[2]d","ifrevision":%[4]d,"data":%[1]d}`,
							round, n, time.Now().UTC().Format(time.RFC3339Nano), revision))
					})
				}
				wg.Wait()
				winner := 0
				if statuses[1] == 202 {
					winner = 1
				}
				if statuses[winner] != 202 || statuses[1-winner] != 409 || !strings.Contains(bodies[1-winner], "revision") {
					t.Fatalf("round %d: %v %v, want one 202 and one 409", round, statuses, bodies)
				}
				var stored struct{ Revision uint64 }
				if err := json.Unmarshal([]byte(bodies[winner]), &stored); err != nil || stored.Revision <= revision {
					t.Fatalf("round %d: %s after revision %d", round, bodies[winner], revision)
				}
				revision = stored.Revision
			}
		})
	}
}

// clusterWithBucket returns the URL of one of three servers with a bucket of three
// replicas.
func clusterWithBucket(t *testing.T) string {
	t.Helper()
	servers := natstest.Cluster(t, 3)
	b := natstest.Dial(t, natsAt(servers[0].URL()))
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if _, err := b.Init(ctx, natskv.InitOptions{Replicas: 3}); err != nil {
		t.Fatal(err)
	}
	return servers[1].URL()
}
