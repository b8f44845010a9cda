package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"

	"github.com/bellpull/bellpull/cmd/internal/datadir"
	"github.com/bellpull/bellpull/schemas"
	"github.com/bellpull/bellpull/schemas/kinds"
)

type kindTest struct {
	Kind  string `json:"kind"`
	File  string `json:"file"`
	Valid bool   `json:"valid"` // always: a value that is not is an error
	// Defaults are what the kind fills in where an event says nothing, and the scopes
	// that it allows.
	Defaults *defaultsView `json:"defaults,omitzero"`
}

func (a *app) kindsTestCommand(dir *string) *cobra.Command {
	return &cobra.Command{
		Use:   "test KIND FILE|-",
		Short: "Try a value against a kind",
		Long: `test checks the value in FILE, or on stdin, against a kind, and says what the kind
would fill in. It asks no server and writes nothing. The value is JSON; in a file
called .yaml or .yml it is YAML. A value that the kind does not allow is told with
every fault and its JSON pointer, exit code 4.`,
		Example: `  bellpull kinds test firewall_rule rule.json
  bellpull kinds test blocked_address ban.yaml --kinds ./kinds
  echo '{"name": "web", "size": 4}' | bellpull kinds test app_pool -`,
		Args: arguments(2, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			set, err := a.kinds(cmd, *dir)
			if err != nil {
				return err
			}
			return a.tryKind(set, args[0], args[1])
		},
	}
}

func (a *app) tryKind(set *kinds.Set, name, path string) error {
	value, err := a.readAny(path)
	if err != nil {
		return err
	}
	if err := set.Validate(name, value); err != nil {
		return err
	}
	all := set.Kinds()
	kind := all[slices.IndexFunc(all, func(k kinds.Kind) bool { return k.Name == name })] // Validate has found it
	answer := kindTest{Kind: name, File: path, Valid: true, Defaults: viewDefaults(kind.Defaults)}
	return a.print(answer, func(row func(...any)) {
		row(fmt.Sprintf("%s: a good value of kind %s", path, name))
		if d := answer.Defaults; d != nil {
			row(fmt.Sprintf("filled in where an event says nothing: %s", d))
		}
	})
}

// readAny reads a value from a file, JSON or YAML by its name, or JSON from stdin.
func (a *app) readAny(path string) (schemas.Value, error) {
	if path == "-" {
		return readValue(a.streams.In)
	}
	f, err := os.Open(path)
	if err != nil {
		return "", fmt.Errorf("read the value: %w", err)
	}
	defer f.Close()
	if extension := filepath.Ext(path); extension != ".yaml" && extension != ".yml" {
		return readValue(f)
	}
	text, err := io.ReadAll(io.LimitReader(f, schemas.MaxDocument+1))
	if err != nil {
		return "", fmt.Errorf("read the value: %w", err)
	}
	return datadir.ParseValue(path, text)
}
