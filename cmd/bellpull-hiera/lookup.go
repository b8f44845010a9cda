package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/bellpull/bellpull/cmd/internal/config"
	"github.com/bellpull/bellpull/cmd/internal/natskv"
	hieradata "github.com/bellpull/bellpull/hieradata_backend"
	"github.com/bellpull/bellpull/schemas"
)

// answerFactor is how many of nats.timeout the question and its answer may take:
// a cluster that elects a leader answers after a few seconds.
const answerFactor = 5

func (a *app) lookupCommand() *cobra.Command {
	var names []string
	cmd := &cobra.Command{
		Use:   "lookup KEY [--scope SCOPE]...",
		Short: "Answer one Hiera key from NATS directly",
		Long: `lookup prints the value of one Hiera key as JSON, secrets as they are. The scopes
are asked as a hierarchy, most specific first; without --scope they are the node's
own, node.hierarchy. A key with members is the hash of all scopes' members.

A key that no scope holds is exit code 3, one whose scopes contradict each other, or
a scope whose body is no document, exit code 4.`,
		Example: `  bellpull-hiera lookup my_firewall::rules --scope node/web1.example.com --scope group/web --scope common`,
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			cfg, err := config.Load(a.configFile)
			if err != nil {
				return err
			}
			scopes, err := hierarchy(cfg, names)
			if err != nil {
				return err
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), answerFactor*cfg.NATS.Timeout)
			defer cancel()
			layers, err := layers(ctx, cfg, scopes)
			if err != nil {
				return err
			}
			found, err := hieradata.Lookup(layers, args[0], time.Now())
			if err != nil {
				return err
			}
			if _, err := fmt.Fprintln(a.streams.Out, string(found.Value)); err != nil {
				return fmt.Errorf("write the answer: %w", err)
			}
			return nil
		},
	}
	cmd.Flags().StringArrayVar(&names, "scope", nil, "`scope` to ask, most specific first; may be given again")
	return cmd
}

func hierarchy(cfg config.Config, names []string) ([]schemas.Scope, error) {
	if len(names) == 0 {
		return cfg.Scopes()
	}
	scopes := make([]schemas.Scope, len(names))
	for i, name := range names {
		var err error
		if scopes[i], err = schemas.ParseScope(name); err != nil {
			return nil, err
		}
	}
	return scopes, nil
}

// layers reads the scopes in one round trip. A scope that cannot be told is an
// error: a lower one never stands in for it.
func layers(ctx context.Context, cfg config.Config, scopes []schemas.Scope) ([]schemas.Layer, error) {
	b, err := natskv.Dial(ctx, bucket(cfg))
	if err != nil {
		return nil, err
	}
	defer b.Close()
	reading, err := b.Read(ctx, scopes)
	if err != nil {
		return nil, err
	}
	if reading.Bucket == "" {
		return nil, fmt.Errorf("bucket %s has no id; run bellpull init: %w", b.Name(), schemas.ErrUnavailable)
	}
	var layers []schemas.Layer
	for _, r := range reading.Scopes {
		if r.Err != nil {
			return nil, r.Err
		}
		layers = append(layers, schemas.Layer{Scope: r.Scope, Revision: r.Revision, Document: r.Document})
	}
	return layers, nil
}
