package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/bellpull/bellpull/cmd/internal/config"
	"github.com/bellpull/bellpull/cmd/internal/datadir"
	"github.com/bellpull/bellpull/cmd/internal/publish"
	"github.com/bellpull/bellpull/cmd/internal/webhook"
	"github.com/bellpull/bellpull/schemas"
	"github.com/bellpull/bellpull/schemas/kinds"
)

// validation is what validate has looked at, and what is wrong with it.
type validation struct {
	Valid   bool          `json:"valid"`
	Checked []checkedPath `json:"checked"`
	Faults  []pathFault   `json:"faults"`
}

type checkedPath struct {
	Path string `json:"path"`
	What string `json:"what"` // data, kinds or configuration
}

type pathFault struct {
	Path    string `json:"path"`
	Message string `json:"message"` // with its place in the file
}

func (a *app) validateCommand() *cobra.Command {
	var dir string
	cmd := &cobra.Command{
		Use:   "validate PATH...",
		Short: "Check data files, kinds and the configuration, offline",
		Long: `validate checks what is in files before it is used, and asks no server: for a
pipeline, or as a pre-commit hook. PATH is a directory of data files, as bellpull
apply takes it, or a single one of them; a directory of kinds, or one NAME.schema.json;
or a configuration, bellpull.yaml or bellpull-*.yaml, with its senders and routes,
whose secrets are not read. Everything is checked against the kinds that are among the
paths, or those of --kinds, or of the configuration.

Each fault is a line of the answer, with its place. If there is one, the exit code
is 4.`,
		Example: `  bellpull validate data kinds bellpull.yaml
  bellpull validate --kinds kinds data/group/web.yaml
  git diff --cached --name-only -z -- data kinds | xargs -0 -r bellpull validate --kinds kinds`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return errors.New("no PATH given")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			v := &validator{validation: validation{Checked: []checkedPath{}, Faults: []pathFault{}}}
			if err := v.loadKinds(a, cmd, dir, args); err != nil {
				return err
			}
			for _, path := range args {
				v.check(path)
			}
			v.Valid = len(v.Faults) == 0
			if err := a.printValidation(v.validation); err != nil {
				return err
			}
			if !v.Valid {
				return fmt.Errorf("%w: %d faults", schemas.ErrInvalid, len(v.Faults))
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&dir, "kinds", "", "`directory` of kinds, NAME.schema.json (default: one among the paths, else gateway.kinds)")
	return cmd
}

// validator checks paths against a set of kinds.
type validator struct {
	validation
	dir       string // of the kinds
	set       *kinds.Set
	publisher *publish.Publisher
}

func (v *validator) fault(path string, err error) {
	var invalid *schemas.InvalidError
	if !errors.As(err, &invalid) {
		v.Faults = append(v.Faults, pathFault{path, err.Error()})
		return
	}
	for _, f := range invalid.Faults {
		message := f.Message
		if f.Pointer != "" {
			message = f.Pointer + ": " + message
		}
		if invalid.What != path && strings.HasSuffix(invalid.What, kindSuffix) {
			message = filepath.Base(invalid.What) + ": " + message
		}
		v.Faults = append(v.Faults, pathFault{path, message})
	}
}

const kindSuffix = ".schema.json"

// loadKinds finds the kinds: where the flag says, among the paths, or where the
// configuration says.
func (v *validator) loadKinds(a *app, cmd *cobra.Command, dir string, paths []string) error {
	v.dir = dir
	if !cmd.Flags().Changed("kinds") {
		for _, path := range paths {
			if holdsKinds(path) {
				v.dir = path
			} else if strings.HasSuffix(path, kindSuffix) {
				v.dir = filepath.Dir(path)
			}
		}
		if v.dir == "" {
			cfg, err := config.Load(a.configFile)
			if err != nil {
				return err
			}
			v.dir = cfg.Gateway.Kinds
		}
	}
	set, err := kinds.Load(v.dir)
	if err != nil {
		for _, one := range separate(err) {
			v.fault(v.dir, one)
		}
		if set, err = kinds.Load(""); err != nil {
			return err
		}
	}
	v.set, v.publisher = set, publish.New(publish.Config{Kinds: set})
	for _, warning := range set.Warnings() {
		a.warn("%s", warning)
	}
	return nil
}

// separate parts what errors.Join has joined.
func separate(err error) []error {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		return joined.Unwrap()
	}
	return []error{err}
}

func holdsKinds(path string) bool {
	found, err := filepath.Glob(filepath.Join(path, "*"+kindSuffix))
	return err == nil && len(found) > 0
}

func (v *validator) check(path string) {
	info, err := os.Stat(path)
	if err != nil {
		v.fault(path, err)
		return
	}
	name := filepath.Base(path)
	checked := func(what string) { v.Checked = append(v.Checked, checkedPath{path, what}) }
	switch isDir := info.IsDir(); {
	case isDir && holdsKinds(path), strings.HasSuffix(name, kindSuffix):
		checked("kinds")
		if dir := filepath.Clean(path); isDir && dir != filepath.Clean(v.dir) || !isDir && filepath.Dir(dir) != filepath.Clean(v.dir) {
			v.fault(path, fmt.Errorf("one directory of kinds is checked at a time, and that is %s", v.dir))
		}
	case isDir:
		checked("data")
		tree, err := datadir.Read(path)
		if err != nil {
			v.fault(path, err)
		}
		for _, f := range tree.Files {
			v.entries(path, f)
		}
	case isConfiguration(name):
		checked("configuration")
		v.configuration(path)
	case datadir.IsDataFile(name):
		checked("data")
		f, err := datadir.ReadFile(path)
		if err != nil {
			v.fault(path, err)
		}
		v.entries(path, f)
	default:
		v.fault(path, errors.New("is neither a data file (*.yaml, *.yml, *.json), nor a kind (*.schema.json), nor a bellpull.yaml"))
	}
}

func isConfiguration(name string) bool {
	ok, err := filepath.Match("bellpull*.yaml", name)
	return ok && err == nil
}

// entries checks a file's entries as apply does. Without a scope, where a kind may
// stand is not checked.
func (v *validator) entries(path string, f datadir.File) {
	for _, e := range f.Entries {
		ev := schemas.Event{
			ID: "validate", Scope: f.Scope, Entry: e.Name, Action: schemas.ActionSet, Value: e.Value,
			Kind: e.Kind, TTL: e.TTL, Expires: e.Expires, Sensitive: e.Sensitive, Run: e.Run,
		}
		var err error
		if f.Scope == "" {
			ev.Scope = "unknown"
			if err = ev.Check(); err == nil && e.Kind != "" {
				err = v.set.Validate(e.Kind, e.Value)
			}
		} else {
			_, err = v.publisher.Check(ev)
		}
		if err != nil {
			v.fault(path, fmt.Errorf("%s: %q: %w", e.Place, e.Name, plain{err}))
		}
	}
}

// plain keeps an error's faults together in one line, behind its place.
type plain struct{ err error }

func (p plain) Error() string { return p.err.Error() }

// configuration checks the file itself, then the gateway's part against the kinds.
func (v *validator) configuration(path string) {
	cfg, err := config.Load(path)
	if err == nil {
		_, err = webhook.New(webhook.Config{Gateway: cfg.Gateway, Kinds: v.set, Offline: true})
	}
	if err != nil {
		v.fault(path, err)
	}
}

func (a *app) printValidation(v validation) error {
	return a.print(v, func(row func(...any)) {
		for _, f := range v.Faults {
			row(f.Path, f.Message)
		}
		if v.Valid {
			row(fmt.Sprintf("%d paths: no fault", len(v.Checked)))
		}
	})
}
