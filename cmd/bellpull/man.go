package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"

	"github.com/bellpull/bellpull/cmd/internal/cli"
)

func (a *app) manCommand() *cobra.Command {
	return &cobra.Command{
		Use:    "man DIR",
		Short:  "Write the manual pages of all commands",
		Hidden: true, // for who makes packages
		Long: `man writes a manual page for each command into a directory, which it makes if it is
missing. With $SOURCE_DATE_EPOCH the same build writes the same bytes.`,
		Example: `  bellpull man man/man1`,
		Args:    arguments(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := os.MkdirAll(args[0], 0o755); err != nil {
				return fmt.Errorf("write manual pages: %w", err)
			}
			version, _, _ := cli.Version()
			root := cmd.Root()
			root.DisableAutoGenTag = true // it would tell today's date
			header := &doc.GenManHeader{Section: "1", Source: "bellpull " + version, Manual: "bellpull"}
			if err := doc.GenManTree(root, header, args[0]); err != nil {
				return fmt.Errorf("write manual pages: %w", err)
			}
			return nil
		},
	}
}
