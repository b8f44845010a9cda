package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/bellpull/bellpull/cmd/internal/cli"
	"github.com/bellpull/bellpull/cmd/internal/natskv"
)

type initAnswer struct {
	Bucket  string       `json:"bucket"`
	ID      string       `json:"id"`
	NewID   bool         `json:"new_id"`
	Created time.Time    `json:"created"`
	Streams []initStream `json:"streams"`
}

type initStream struct {
	Name    string   `json:"name"`
	Created bool     `json:"created"`
	Mended  []string `json:"mended,omitempty"`
}

func (a *app) initCommand() *cobra.Command {
	var opts natskv.InitOptions
	cmd := &cobra.Command{
		Use:   "init",
		Short: "Make the bucket, or mend its settings",
		Long: `init makes the bucket's streams and gives it an id, or mends the settings that
differ from what bellpull relies on. It never touches a document, and may be
repeated at any time.

After a bucket was restored from a backup by other means, give it a new id:
nodes then read everything again instead of taking it for a lagging replica.`,
		Example: `  bellpull init
  bellpull init --replicas 3`,
		Args: arguments(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if cmd.Flags().Changed("replicas") && !slices.Contains([]int{1, 3, 5}, opts.Replicas) {
				return cli.Usage(fmt.Errorf("--replicas %d: must be 1, 3 or 5", opts.Replicas))
			}
			if cmd.Flags().Changed("history") && (opts.History < 1 || opts.History > 64) {
				return cli.Usage(fmt.Errorf("--history %d: must be 1 to 64", opts.History))
			}
			return a.initBucket(cmd.Context(), opts)
		},
	}
	flags := cmd.Flags()
	flags.IntVar(&opts.Replicas, "replicas", 0, "copies of each stream in a cluster: 1, 3 or 5 (default as it is, 1 for a new one)")
	flags.IntVar(&opts.History, "history", 0, "revisions kept of each scope, 1 to 64 (default as it is, 64 for a new one)")
	flags.BoolVar(&opts.NewID, "new-id", false, "give the bucket a new id")
	return cmd
}

func (a *app) initBucket(ctx context.Context, opts natskv.InitOptions) error {
	bucket, _, done, err := a.dial(ctx)
	if err != nil {
		return err
	}
	defer done()
	result, err := bucket.Init(ctx, opts) // has a longer deadline of its own
	if err != nil {
		return err
	}
	answer := initAnswer{Bucket: bucket.Name(), ID: result.Bucket.ID, NewID: result.NewID, Created: result.Bucket.Created}
	for _, s := range result.Streams {
		stream := initStream{Name: s.Name, Created: s.Created}
		for _, d := range s.Mended {
			stream.Mended = append(stream.Mended, d.Setting)
		}
		answer.Streams = append(answer.Streams, stream)
	}
	return a.print(answer, func(row func(...any)) {
		row("bucket", answer.Bucket)
		row("id", answer.ID, ifTrue(answer.NewID, "new"))
		for _, s := range answer.Streams {
			what := "as it should be"
			if s.Created {
				what = "made"
			} else if len(s.Mended) > 0 {
				what = fmt.Sprintf("mended: %s", s.Mended)
			}
			row(s.Name, what)
		}
	})
}

func ifTrue(condition bool, text string) string {
	if condition {
		return text
	}
	return ""
}
