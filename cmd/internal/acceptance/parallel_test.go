package acceptance_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/bellpull/bellpull/schemas"
)

// parallelCompiles: HIERA-04. Eight compiles at a time on two JRuby instances, of
// several nodes in several environments, while their documents change and NATS is
// restarted: each gets its own node's data, of one revision, and none fails.
func parallelCompiles(t *testing.T, e *estate, web, db *node) {
	const rounds = 12 // of each of the eight
	e.sync()
	nodes := []*node{web, db}
	scopes := make([]schemas.Scope, len(nodes))
	for i, n := range nodes {
		scopes[i] = schemas.Scope("node/" + n.Name)
	}
	// Each revision has the same text under both keys, and the node's name in it.
	write := func(ctx context.Context, generation int) error {
		for i, scope := range scopes {
			reading, err := e.bucket.Read(ctx, []schemas.Scope{scope})
			if err != nil {
				return err
			}
			text := fmt.Sprintf("%s %d %s", nodes[i].Name, generation, strings.Repeat("x", 10_000))
			body := fmt.Sprintf(`{"bellpull":1,"entries":{"app::text":{"value":%q},"app::late":{"value":%q}}}`, text, text)
			if _, err := e.bucket.Put(ctx, scope, []byte(body), reading.Scopes[0].Revision); err != nil {
				return err
			}
		}
		return nil
	}
	if err := write(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	for _, scope := range scopes {
		e.until("both nodes have documents", func() bool { return strings.Contains(e.read("hiera/"+scope.FileName()), " 0 x") })
	}

	ctx, end := context.WithCancel(t.Context())
	var writer sync.WaitGroup
	generation := 0
	writer.Go(func() {
		for ctx.Err() == nil {
			generation++
			// What is refused while NATS is away is written in the next round.
			_ = write(ctx, generation)
			if generation%200 == 0 {
				e.nats.Restart()
			}
		}
	})
	var compiles sync.WaitGroup
	for i := range 8 {
		n := nodes[i%len(nodes)]
		client, err := e.server.Client(n.Agent)
		if err != nil {
			t.Fatal(err)
		}
		environment := []string{"production", "second", "aged", "production"}[i/2]
		compiles.Go(func() {
			for range rounds {
				catalog, _, err := client.Catalog(ctx, environment, nil)
				if err != nil {
					t.Errorf("%s in %s: %v", n.Name, environment, err)
					return
				}
				text, _ := catalog.Parameter("File", n.Dir+"/text", "content").(string)
				late, _ := catalog.Parameter("File", n.Dir+"/late", "content").(string)
				if text != late || !strings.HasPrefix(text, n.Name+" ") {
					t.Errorf("%s in %s: got %.40q and %.40q", n.Name, environment, text, late)
				}
			}
		})
	}
	compiles.Wait()
	end()
	writer.Wait()
	t.Logf("%d generations written during %d compiles", generation, 8*rounds)
	if generation < 10 {
		t.Errorf("the documents have changed %d times only", generation)
	}
}
