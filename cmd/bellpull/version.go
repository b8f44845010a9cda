package main

import (
	"runtime"

	"github.com/spf13/cobra"

	"github.com/bellpull/bellpull/cmd/internal/cli"
)

type versionInfo struct {
	Version  string `json:"version"`
	Commit   string `json:"commit,omitempty"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

func (a *app) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Tell which build this is",
		Long: `version tells the release, the commit and the Go version that this program was
built from, and the platform that it was built for. It asks no server.`,
		Example: `  bellpull version`,
		Args:    arguments(0, 0),
		RunE: func(*cobra.Command, []string) error {
			v := versionInfo{Platform: runtime.GOOS + "/" + runtime.GOARCH}
			v.Version, v.Commit, v.Go = cli.Version()
			return a.print(v, func(row func(...any)) {
				row("version", v.Version)
				row("commit", v.Commit)
				row("go", v.Go)
				row("platform", v.Platform)
			})
		},
	}
}
