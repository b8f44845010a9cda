package main

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/bellpull/bellpull/cmd/internal/config"
	"github.com/bellpull/bellpull/schemas/kinds"
)

type kindView struct {
	Name        string        `json:"name"`
	Title       string        `json:"title,omitzero"`
	Description string        `json:"description,omitzero"`
	File        string        `json:"file"`
	Draft       string        `json:"draft"`
	Defaults    *defaultsView `json:"defaults,omitzero"`
}

// defaultsView is x-bellpull as it is written in a schema.
type defaultsView struct {
	TTL       string   `json:"ttl,omitzero"`
	Run       *runView `json:"run,omitzero"`
	Sensitive bool     `json:"sensitive,omitzero"`
	Scopes    []string `json:"scopes,omitempty"`
}

func (a *app) kindsCommand() *cobra.Command {
	var dir string
	cmd := &cobra.Command{
		Use:   "kinds",
		Short: "List the kinds of entries, or try a value",
		Long: `kinds lists what an entry's value may have to look like: the kinds that are built
in, and those of the directory gateway.kinds, with what a kind says of each of its
entries (x-bellpull). It asks no server. A file that cannot be used is told with
every place in it, exit code 4.`,
		Example: `  bellpull kinds
  bellpull kinds --kinds ./kinds --output json`,
		Args: arguments(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			set, err := a.kinds(cmd, dir)
			if err != nil {
				return err
			}
			return a.listKinds(set)
		},
	}
	cmd.PersistentFlags().StringVar(&dir, "kinds", "", "`directory` of further kinds, NAME.schema.json (default gateway.kinds)")
	cmd.AddCommand(a.kindsTestCommand(&dir))
	return cmd
}

// kinds loads the kinds of --kinds, or else of the configuration.
func (a *app) kinds(cmd *cobra.Command, dir string) (*kinds.Set, error) {
	if !cmd.Flags().Changed("kinds") {
		cfg, err := config.Load(a.configFile)
		if err != nil {
			return nil, err
		}
		dir = cfg.Gateway.Kinds
	}
	set, err := kinds.Load(dir)
	if err != nil {
		return nil, err
	}
	for _, warning := range set.Warnings() {
		a.warn("%s", warning)
	}
	return set, nil
}

func (a *app) listKinds(set *kinds.Set) error {
	views := []kindView{}
	for _, k := range set.Kinds() {
		views = append(views, kindView{
			Name: k.Name, Title: k.Title, Description: k.Description, File: k.File, Draft: k.Draft, Defaults: viewDefaults(k.Defaults),
		})
	}
	return a.print(views, func(row func(...any)) {
		row("KIND", "TITLE", "FILE", "DEFAULTS")
		for _, v := range views {
			row(v.Name, v.Title, v.File, v.Defaults)
		}
	})
}

// viewDefaults returns nil for a kind that says nothing.
func viewDefaults(d kinds.Defaults) *defaultsView {
	if d.IsZero() {
		return nil
	}
	v := &defaultsView{Run: viewRun(d.Run), Sensitive: d.Sensitive, Scopes: d.Scopes}
	if d.TTL > 0 {
		v.TTL = d.TTL.String()
	}
	return v
}

// String is what a table shows.
func (v *defaultsView) String() string {
	if v == nil {
		return ""
	}
	var parts []string
	add := func(name, text string) {
		if text != "" {
			parts = append(parts, name+" "+text)
		}
	}
	add("ttl", v.TTL)
	if run := v.Run; run != nil {
		add("trigger", string(run.Trigger))
		add("splay", run.Splay)
		add("tags", strings.Join(run.Tags, ","))
		if run.Noop {
			parts = append(parts, "noop")
		}
	}
	if v.Sensitive {
		parts = append(parts, "sensitive")
	}
	add("scopes", strings.Join(v.Scopes, ","))
	return strings.Join(parts, "; ")
}
