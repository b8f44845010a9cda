package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/bellpull/bellpull/cmd/internal/config"
)

// The outcomes of a check.
const (
	statusOK   = "ok"
	statusWarn = "warn"
	statusFail = "fail"
)

// check is one thing that doctor looked at.
type check struct {
	Status  string `json:"status"`
	Check   string `json:"check"`
	Message string `json:"message"`
	Fix     string `json:"fix,omitzero"` // what to do; "" when there is nothing to do
}

// findings collects checks.
type findings []check

func (f *findings) ok(name, format string, args ...any) {
	*f = append(*f, check{statusOK, name, fmt.Sprintf(format, args...), ""})
}

func (f *findings) warn(name, fix, format string, args ...any) {
	*f = append(*f, check{statusWarn, name, fmt.Sprintf(format, args...), fix})
}

func (f *findings) fail(name, fix, format string, args ...any) {
	*f = append(*f, check{statusFail, name, fmt.Sprintf(format, args...), fix})
}

func (a *app) doctorCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "doctor",
		Short: "Look for what is wrong, on this machine and in the bucket",
		Long: `doctor checks the configuration, the way to NATS, the bucket's streams, the
clocks, and on a node Facter, Puppet, their lock files and bellpull's own state.
It changes nothing. A check that failed makes the exit code 1.`,
		Example: `  bellpull doctor
  bellpull doctor --output json`,
		Args: arguments(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			found := a.examine(cmd.Context())
			err := a.print(found, func(row func(...any)) {
				for _, c := range found {
					text := c.Message
					if c.Fix != "" {
						text += "; " + c.Fix
					}
					row(c.Status, c.Check, text)
				}
			})
			failed := 0
			for _, c := range found {
				if c.Status == statusFail {
					failed++
				}
			}
			if err == nil && failed > 0 {
				err = fmt.Errorf("%d of %d checks failed", failed, len(found))
			}
			return err
		},
	}
}

func (a *app) examine(ctx context.Context) findings {
	var f findings
	cfg, err := config.Load(a.configFile)
	if err != nil {
		f.fail("config", "mend the configuration", "%v", err)
		return f
	}
	f.ok("config", "bucket %s, state in %s", cfg.Bucket, cfg.State)
	f.store(ctx, cfg)
	f.state(cfg)
	if f.program(ctx, "puppet") {
		f.locks(ctx, cfg)
	}
	if f.program(ctx, "facter") {
		f.facterConfig("/etc/facter/facter.conf", "/etc/puppetlabs/facter/facter.conf")
	}
	return f
}
