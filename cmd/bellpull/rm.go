package main

import (
	"github.com/spf13/cobra"

	"github.com/bellpull/bellpull/schemas"
)

func (a *app) rmCommand() *cobra.Command {
	var c change
	cmd := &cobra.Command{
		Use:   "rm SCOPE ENTRY",
		Short: "Remove an entry",
		Long: `rm removes one entry from a scope's document. An entry that is not there is an
error, and nothing is written. With --event the removal is an event like any
other: it is recorded even where nothing stands.`,
		Example: `  bellpull rm group/web 'my_firewall::rules[tcp-8443]'`,
		Args:    arguments(2, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			scope, err := schemas.ParseScope(args[0])
			if err != nil {
				return err
			}
			ev := schemas.Event{Scope: scope, Entry: args[1], Action: schemas.ActionRemove}
			if err := c.complete(&ev); err != nil {
				return err
			}
			return a.publish(cmd, &c, ev, c.event == "")
		},
	}
	c.flags(cmd)
	return cmd
}
