package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/spf13/cobra"

	"github.com/bellpull/bellpull/cmd/internal/cli"
	"github.com/bellpull/bellpull/cmd/internal/config"
	"github.com/bellpull/bellpull/cmd/internal/natskv"
	"github.com/bellpull/bellpull/schemas"
)

// app is one run of the program.
type app struct {
	streams    cli.Streams
	configFile string
	output     string // "", json, yaml or table
	started    bool   // the command line was understood
}

// run carries out a command line.
func run(ctx context.Context, streams cli.Streams, args []string) error {
	a := &app{streams: streams}
	root := a.command()
	root.SetArgs(args)
	root.SetIn(streams.In)
	root.SetOut(streams.Out)
	root.SetErr(streams.Err)
	cmd, err := root.ExecuteContextC(ctx)
	if err != nil && !a.started { // a command, an argument or a flag that does not exist
		err = cli.Usage(err)
	}
	err = cli.Hint(err, hint(cmd, err))
	if asksForJSON(args) {
		err = cli.JSON(err)
	}
	return err
}

// hint says what to do about an error, where its text does not.
func hint(cmd *cobra.Command, err error) string {
	switch {
	case err == nil:
		return ""
	case cli.ExitCode(err) == cli.ExitUsage:
		return fmt.Sprintf("`%s --help` shows how it is used", cmd.CommandPath())
	case errors.Is(err, schemas.ErrUnavailable) && !strings.Contains(err.Error(), "bellpull init"):
		return "nats.servers in the configuration (--config, $BELLPULL_CONFIG) says where NATS is; `bellpull doctor` looks for the cause"
	case strings.HasPrefix(err.Error(), "scope "), strings.HasPrefix(err.Error(), "entry name "):
		if errors.Is(err, schemas.ErrInvalid) {
			return "a scope is such as common, group/web or node/web1.example.com; an entry such as motd or my_firewall::rules[tcp-8443]"
		}
	}
	return ""
}

// asksForJSON looks for itself: an error in an earlier flag ends the parsing.
func asksForJSON(args []string) bool {
	for i, arg := range args {
		switch arg {
		case "--":
			return false
		case "--output=json", "-ojson", "-o=json":
			return true
		case "--output", "-o":
			return i+1 < len(args) && args[i+1] == "json"
		}
	}
	return false
}

func (a *app) command() *cobra.Command {
	root := &cobra.Command{
		Use:   "bellpull",
		Short: "Change and show the desired state that nodes pull",
		Long: `bellpull changes and shows the desired state that nodes pull: entries, in the
document of a scope such as common, group/web or node/web1.example.com.

stdout is data, stderr is talk. Exit codes: 0 ok, 1 failure, 2 wrong usage,
3 not found, 4 invalid, 5 conflict, 6 unavailable, 7 something would change
(apply --dry-run --exit-code).`,
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			a.started = false
			return errors.New("a command is wanted")
		},
		PersistentPreRunE: func(*cobra.Command, []string) error {
			if formats := []string{"", "json", "yaml", "table"}; !slices.Contains(formats, a.output) {
				return fmt.Errorf("--output %q: must be json, yaml or table", a.output)
			}
			a.started = true
			return nil
		},
	}
	flags := root.PersistentFlags()
	flags.StringVar(&a.configFile, "config", "", "configuration `file` (default $BELLPULL_CONFIG or "+config.DefaultFile+")")
	flags.StringVarP(&a.output, "output", "o", "", "`format` of the data: json, yaml or table (default table on a terminal, json elsewhere)")
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return err })
	root.AddCommand(
		a.serverCommand(), a.initCommand(), a.putCommand(), a.getCommand(), a.rmCommand(),
		a.lsCommand(), a.historyCommand(), a.diffCommand(), a.rollbackCommand(), a.explainCommand(), a.applyCommand(), a.exportCommand(), a.kindsCommand(), a.validateCommand(),
		a.statusCommand(), a.permitsCommand(), a.doctorCommand(), a.versionCommand(), a.manCommand(),
	)
	a.complete(root)
	return root
}

// arguments checks how many arguments a command has.
func arguments(least, most int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) < least || len(args) > most {
			return fmt.Errorf("%d arguments given; the command is: %s", len(args), strings.TrimSuffix(cmd.UseLine(), " [flags]"))
		}
		return nil
	}
}

// answerFactor is how many of nats.timeout one question and its answer may take:
// a cluster that elects a leader answers after a few seconds.
const answerFactor = 5

// dial reads the configuration and connects to the bucket. The context that it
// returns ends when the whole question has taken too long.
func (a *app) dial(ctx context.Context) (*natskv.Bucket, context.Context, context.CancelFunc, error) {
	cfg, err := config.Load(a.configFile)
	if err != nil {
		return nil, nil, nil, err
	}
	return dial(ctx, cfg)
}

func dial(ctx context.Context, cfg config.Config) (*natskv.Bucket, context.Context, context.CancelFunc, error) {
	ctx, cancel := context.WithTimeout(ctx, answerFactor*cfg.NATS.Timeout)
	bucket, err := natskv.Dial(ctx, store(cfg))
	if err != nil {
		cancel()
		return nil, nil, nil, err
	}
	return bucket, ctx, func() { bucket.Close(); cancel() }, nil
}

// store is where the configuration says that the bucket is.
func store(cfg config.Config) natskv.Config {
	return natskv.Config{
		Servers: cfg.NATS.Servers,
		TLS:     natskv.TLS{CA: cfg.NATS.TLS.CA, Cert: cfg.NATS.TLS.Cert, Key: cfg.NATS.TLS.Key},
		Creds:   cfg.NATS.Creds, NKey: cfg.NATS.NKey, Timeout: cfg.NATS.Timeout,
		Name: "bellpull", Bucket: cfg.Bucket,
	}
}

// warn tells of what is odd but does not stop the command.
func (a *app) warn(format string, args ...any) {
	line := strings.ReplaceAll(fmt.Sprintf(format, args...), "\n", "; ")
	if a.output != "json" {
		fmt.Fprintf(a.streams.Err, "bellpull: warning: %s\n", printable(line))
		return
	}
	text, _ := json.Marshal(map[string]string{"warning": line}, jsontext.AllowInvalidUTF8(true)) // valid UTF-8 or replaced: cannot fail
	fmt.Fprintf(a.streams.Err, "%s\n", text)
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }
