package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/bellpull/bellpull/cmd/internal/natskv"
	"github.com/bellpull/bellpull/schemas"
)

type scopeView struct {
	Scope    schemas.Scope `json:"scope,omitzero"`
	Key      string        `json:"key"`
	Revision uint64        `json:"revision"`
	Time     time.Time     `json:"time"`
	Entries  []string      `json:"entries,omitzero"`
	Foreign  bool          `json:"foreign,omitzero"`
	Error    string        `json:"error,omitzero"`
}

// lsBatch is how many documents are fetched in one round trip.
const lsBatch = 200

func (a *app) lsCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "ls [PREFIX]",
		Short: "List the scopes and their entries",
		Long: `ls lists the scopes that have a document, those that begin with PREFIX or all,
with the names of their entries. Keys that some other client wrote and that
stand for no scope are listed as foreign; nothing reads them.`,
		Example: `  bellpull ls
  bellpull ls group/`,
		Args: arguments(0, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			bucket, _, done, err := a.dial(cmd.Context())
			if err != nil {
				return err
			}
			defer done()
			// A large bucket takes as long as it takes; each call has a deadline of its own.
			views, err := a.list(cmd.Context(), bucket, strings.Join(args, ""))
			if err != nil {
				return err
			}
			return a.print(views, func(row func(...any)) {
				row("SCOPE", "REVISION", "TIME", "ENTRIES")
				for _, v := range views {
					name, entries := string(v.Scope), strings.Join(v.Entries, " ")
					if v.Foreign {
						name, entries = v.Key, "(foreign key)"
					} else if v.Error != "" {
						entries = "(invalid)"
					}
					row(name, v.Revision, stamp(v.Time), entries)
				}
			})
		},
	}
}

func (a *app) list(ctx context.Context, bucket *natskv.Bucket, prefix string) ([]scopeView, error) {
	infos, err := bucket.Scopes(ctx, prefix)
	if err != nil {
		return nil, err
	}
	views := []scopeView{}
	var scopes []schemas.Scope
	place := map[schemas.Scope]int{}
	for _, info := range infos {
		if info.Deleted {
			continue
		}
		if info.Foreign {
			a.warn("key %q stands for no scope; some other client wrote it, and nothing reads it", info.Key)
		} else {
			place[info.Scope] = len(views)
			scopes = append(scopes, info.Scope)
		}
		views = append(views, scopeView{Scope: info.Scope, Key: info.Key, Revision: info.Revision, Time: info.Time, Foreign: info.Foreign})
	}
	for len(scopes) > 0 {
		batch := scopes[:min(lsBatch, len(scopes))]
		scopes = scopes[len(batch):]
		reading, err := bucket.Read(ctx, batch)
		if err != nil {
			return nil, err
		}
		if reading.Bucket == "" {
			return nil, errNoID
		}
		for _, r := range reading.Scopes {
			if err := a.describe(&views[place[r.Scope]], r, reading.At); err != nil {
				return nil, err
			}
		}
	}
	return views, nil
}

// describe adds what was read of a scope. An invalid document is shown as one.
func (a *app) describe(v *scopeView, r schemas.ScopeReading, now time.Time) error {
	if r.Revision == 0 && r.Err != nil {
		return fmt.Errorf("read scope %s: %w", r.Scope, r.Err)
	}
	v.Revision, v.Time = r.Revision, r.Time
	if r.Err != nil {
		v.Error = r.Err.Error()
		a.warn("%v", r.Err)
		return nil
	}
	v.Entries = []string{}
	for name := range r.Document.Live(now) {
		v.Entries = append(v.Entries, name)
	}
	return nil
}
