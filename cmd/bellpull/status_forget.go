package main

import (
	"bufio"
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/bellpull/bellpull/cmd/internal/cli"
	"github.com/bellpull/bellpull/cmd/internal/natskv"
	"github.com/bellpull/bellpull/schemas"
)

func (a *app) statusForgetCommand() *cobra.Command {
	var yes bool
	cmd := &cobra.Command{
		Use:   "forget NODE",
		Short: "Forget a node that is gone for good",
		Long: `forget makes a node unknown to status and to --wait, until it reports again. It
asks first on a terminal; elsewhere it wants --yes.`,
		Example: `  bellpull status forget web7.example.com --yes`,
		Args:    arguments(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if !yes {
				if err := a.confirm("Forget node " + args[0] + "?"); err != nil {
					return err
				}
			}
			bucket, ctx, done, err := a.dial(cmd.Context())
			if err != nil {
				return err
			}
			defer done()
			return bucket.ForgetStatus(ctx, args[0])
		},
	}
	cmd.Flags().BoolVar(&yes, "yes", false, "do not ask")
	return cmd
}

// confirm asks on a terminal; where there is none it is [cli.Usage]: --yes is wanted.
func (a *app) confirm(question string) error {
	if !isTerminal(a.streams.In) {
		return cli.Usage(fmt.Errorf("--yes is wanted where there is no terminal"))
	}
	fmt.Fprintf(a.streams.Err, "%s [y/N] ", question)
	answer, err := bufio.NewReader(a.streams.In).ReadString('\n')
	if answer = strings.ToLower(strings.TrimSpace(answer)); err != nil || answer != "y" && answer != "yes" {
		return fmt.Errorf("nothing was done")
	}
	return nil
}

// manyNodes is how many nodes that run at once are a herd.
const manyNodes = 200

// warnHerd warns where a change of one scope would start many runs at once.
func (a *app) warnHerd(ctx context.Context, bucket *natskv.Bucket, nodes map[string]natskv.NodeStatus) {
	scope, n := herd(nodes)
	if n <= manyNodes {
		return
	}
	if limit, err := bucket.Limit(ctx); err == nil && limit.Max == 0 {
		a.warn("%d nodes run at once when %s changes: there is neither a limit (bellpull permits set N) nor a splay (watch.splay)", n, scope)
	}
}

// herd is the scope that most nodes without a splay share.
func herd(nodes map[string]natskv.NodeStatus) (most schemas.Scope, n int) {
	counts := map[schemas.Scope]int{}
	for _, s := range nodes {
		if s.Status.Splay {
			continue
		}
		for scope := range s.Status.Scopes {
			if counts[scope]++; counts[scope] > n || counts[scope] == n && scope < most {
				most, n = scope, counts[scope]
			}
		}
	}
	return most, n
}
