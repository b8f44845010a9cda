package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/bellpull/bellpull/cmd/internal/cli"
	"github.com/bellpull/bellpull/schemas"
)

// putOptions are put's own flags.
type putOptions struct {
	change
	file      string
	kind      string
	ttl       time.Duration
	sensitive bool
	trigger   string
	tags      []string
	noop      bool
	splay     time.Duration
}

func (a *app) putCommand() *cobra.Command {
	var o putOptions
	cmd := &cobra.Command{
		Use:   "put SCOPE ENTRY [VALUE]",
		Short: "Set an entry",
		Long: `put sets one entry in a scope's document. VALUE is JSON; a string is written with
its quotes, and an empty VALUE is the empty string. A VALUE that begins with "-"
goes after "--". Without VALUE the JSON is read from the file of -f, or from a
pipe. Pass secrets that way: arguments can be seen in the list of processes.`,
		Example: `  bellpull put group/web 'my_firewall::rules[tcp-8443]' \
      '{"port": 8443, "protocol": "tcp", "action": "allow"}' --kind firewall_rule
  bellpull put common 'my_firewall::blocked[203.0.113.7]' \
      '{"address": "203.0.113.7"}' --kind blocked_address --ttl 20m
  bellpull put common motd '"Maintenance at 18:00"'
  bellpull put node/db1.example.com db::password -f - --sensitive < secret.json`,
		Args: arguments(2, 3),
		RunE: func(cmd *cobra.Command, args []string) error {
			ev, err := a.setEvent(cmd, &o, args)
			if err != nil {
				return err
			}
			return a.publish(cmd, &o.change, ev, false)
		},
	}
	o.flags(cmd)
	flags := cmd.Flags()
	flags.StringVarP(&o.file, "file", "f", "", "read the value from this `file`; - is stdin")
	flags.StringVar(&o.kind, "kind", "", "check the value against this kind (a JSON Schema)")
	flags.DurationVar(&o.ttl, "ttl", 0, "the entry goes away by itself after this `time`, such as 20m")
	flags.BoolVar(&o.sensitive, "sensitive", false, "the value is a secret")
	flags.StringVar(&o.trigger, "trigger", "", "now: nodes start a run; next: their next run takes it along (default now)")
	flags.StringSliceVar(&o.tags, "tags", nil, "limit the run to these Puppet `tags`, separated by commas")
	flags.BoolVar(&o.noop, "noop", false, "the run only shows what it would do")
	flags.DurationVar(&o.splay, "splay", 0, "nodes spread their runs over this `time`")
	flags.BoolVar(&o.dryRun, "dry-run", false, "check everything, write nothing")
	return cmd
}

func (a *app) setEvent(cmd *cobra.Command, o *putOptions, args []string) (schemas.Event, error) {
	scope, err := schemas.ParseScope(args[0])
	if err != nil {
		return schemas.Event{}, err
	}
	if err := schemas.CheckName(args[1]); err != nil {
		return schemas.Event{}, err
	}
	for name, d := range map[string]time.Duration{"ttl": o.ttl, "splay": o.splay} {
		if cmd.Flags().Changed(name) && d <= 0 {
			return schemas.Event{}, cli.Usage(fmt.Errorf("--%s %v: must be above 0", name, d))
		}
	}
	value, err := a.value(o, args[2:])
	if err != nil {
		return schemas.Event{}, err
	}
	ev := schemas.Event{
		Scope: scope, Entry: args[1], Action: schemas.ActionSet,
		Value: value, Kind: o.kind, TTL: o.ttl, Sensitive: o.sensitive,
		Run: schemas.RunPolicy{Trigger: schemas.Trigger(o.trigger), Splay: o.splay, Tags: o.tags, Noop: o.noop},
	}
	return ev, o.complete(&ev)
}

// value finds the value: the argument, the file, or what is piped in.
func (a *app) value(o *putOptions, args []string) (schemas.Value, error) {
	switch {
	case len(args) > 0 && o.file != "":
		return "", cli.Usage(errors.New("both VALUE and -f are given"))
	case len(args) > 0 && args[0] == "":
		return `""`, nil
	case len(args) > 0:
		value, err := schemas.ParseValue([]byte(args[0]))
		if err != nil && isWord(args[0]) {
			if o.sensitive {
				return "", fmt.Errorf(`%w; a string is written with its quotes`, err)
			}
			return "", fmt.Errorf(`%w; a string is written with its quotes: '"%s"'`, err, args[0])
		}
		return value, err
	case o.file != "" && o.file != "-":
		f, err := os.Open(o.file)
		if err != nil {
			return "", fmt.Errorf("read the value: %w", err)
		}
		defer f.Close()
		return readValue(f)
	case isTerminal(a.streams.In):
		return "", cli.Usage(errors.New("no value is given: write VALUE, -f FILE, or pipe JSON in"))
	}
	value, err := readValue(a.streams.In)
	if errors.Is(err, errNothing) && o.file == "" {
		return "", cli.Usage(errors.New(`no value is given: write VALUE ("" is the empty string), -f FILE, or pipe JSON in`))
	}
	return value, err
}

// errNothing is what reading an empty file or pipe gives.
var errNothing = fmt.Errorf("%w: the value is empty, JSON is wanted", schemas.ErrInvalid)

func readValue(r io.Reader) (schemas.Value, error) {
	// One byte more than is allowed is enough to see that it is too much.
	text, err := io.ReadAll(io.LimitReader(r, schemas.MaxDocument+1))
	switch {
	case err != nil:
		return "", fmt.Errorf("read the value: %w", err)
	case strings.TrimSpace(string(text)) == "":
		return "", errNothing
	}
	return schemas.ParseValue(text)
}

// isWord reports whether somebody seems to have forgotten the quotes of a string.
func isWord(s string) bool {
	return len(s) <= 100 && !strings.ContainsAny(s, "\"'\\{}[]") && printable(s) == s
}
