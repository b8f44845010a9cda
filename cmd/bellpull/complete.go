package main

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/bellpull/bellpull/cmd/internal/cli"
	"github.com/bellpull/bellpull/cmd/internal/config"
	"github.com/bellpull/bellpull/cmd/internal/natskv"
	"github.com/bellpull/bellpull/schemas"
	"github.com/bellpull/bellpull/schemas/kinds"
)

// completeTime is how long somebody who pressed the tab key is kept waiting.
const completeTime = 300 * time.Millisecond

// completions are what could stand at a place of the command line.
type completions = func(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective)

// complete lets the shell complete scopes, entries, kinds and formats. Without a
// server, or without an answer in time, there is nothing to complete, and no error.
func (a *app) complete(root *cobra.Command) {
	for _, cmd := range root.Commands() {
		switch name, use, _ := strings.Cut(cmd.Use, " "); {
		case strings.HasPrefix(use, "SCOPE"):
			cmd.ValidArgsFunction = a.scopesAndEntries(strings.Contains(use, "ENTRY"))
		case name == "ls":
			cmd.ValidArgsFunction = a.scopesAndEntries(false)
		case strings.Contains(use, "DIR"), strings.Contains(use, "PATH"): // files, which the shell knows
		default:
			cmd.ValidArgsFunction = cobra.NoFileCompletions
		}
		for flag, f := range map[string]completions{
			"kind": a.completeKinds, "scope": a.scopesAndEntries(false),
			"log-level": words(strings.Split(cli.Levels, ", ")...), "trigger": words(string(schemas.TriggerNow), string(schemas.TriggerNext)),
		} {
			if cmd.Flags().Lookup(flag) != nil {
				_ = cmd.RegisterFlagCompletionFunc(flag, f) // fails for a flag that does not exist, or twice
			}
		}
	}
	_ = root.RegisterFlagCompletionFunc("output", words("json", "yaml", "table"))
}

func words(list ...string) completions {
	return func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		return list, cobra.ShellCompDirectiveNoFileComp
	}
}

func (a *app) completeKinds(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	cfg, err := config.Load(a.configFile)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	set, err := kinds.Load(cfg.Gateway.Kinds)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return set.Names(), cobra.ShellCompDirectiveNoFileComp
}

// scopesAndEntries completes a scope, and behind it, if asked for, its entries.
func (a *app) scopesAndEntries(entries bool) completions {
	return func(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
		ctx, cancel := context.WithTimeout(cmd.Context(), completeTime)
		defer cancel()
		var found []string
		if len(args) == 0 || entries && len(args) == 1 {
			found = a.ask(ctx, args, begun)
		}
		return found, cobra.ShellCompDirectiveNoFileComp
	}
}

// ask asks the bucket for the scopes, or for the entries of one.
func (a *app) ask(ctx context.Context, args []string, begun string) (found []string) {
	cfg, err := config.Load(a.configFile)
	if err != nil {
		return nil
	}
	bucket, err := natskv.Dial(ctx, store(cfg))
	if err != nil {
		return nil
	}
	defer bucket.Close()
	if len(args) == 0 {
		infos, err := bucket.Scopes(ctx, begun)
		if err != nil {
			return nil
		}
		for _, info := range infos {
			if !info.Foreign && !info.Deleted {
				found = append(found, string(info.Scope))
			}
		}
		return found
	}
	scope, err := schemas.ParseScope(args[0])
	if err != nil {
		return nil
	}
	reading, err := bucket.Read(ctx, []schemas.Scope{scope})
	if err != nil {
		return nil
	}
	for name := range reading.Scopes[0].Document.Live(time.Now()) {
		if strings.HasPrefix(name, begun) {
			found = append(found, name)
		}
	}
	slices.Sort(found)
	return found
}
