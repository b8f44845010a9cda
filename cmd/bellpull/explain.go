package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/bellpull/bellpull/cmd/internal/cli"
	"github.com/bellpull/bellpull/cmd/internal/config"
	"github.com/bellpull/bellpull/cmd/internal/natskv"
	"github.com/bellpull/bellpull/schemas"
)

// explanation tells which scopes give a key's value to a node. It holds no secret.
type explanation struct {
	Key       string           `json:"key"`
	Node      string           `json:"node,omitzero"`
	Hierarchy string           `json:"hierarchy"` // where it was found: status, config or flags
	Found     bool             `json:"found"`
	Value     schemas.Value    `json:"value,omitzero"` // as the fact and Hiera have it
	Sensitive bool             `json:"sensitive,omitzero"`
	Error     string           `json:"error,omitzero"` // scopes that contradict each other
	Merged    bool             `json:"merged,omitzero"`
	Scopes    []explainedScope `json:"scopes"`
	Pending   []string         `json:"pending,omitempty"` // entries of the key that the node has not applied
}

type explainedScope struct {
	Scope    schemas.Scope        `json:"scope"`
	Revision uint64               `json:"revision"`
	Error    string               `json:"error,omitzero"`
	Entries  map[string]entryView `json:"entries,omitempty"` // of the key
	Wins     []string             `json:"wins,omitempty"`    // names, or members, that the value has from here
	Expired  []string             `json:"expired,omitempty"` // names that would count if they had not expired
}

func (a *app) explainCommand() *cobra.Command {
	var node string
	var scopes []string
	cmd := &cobra.Command{
		Use:   "explain ENTRY --node CERTNAME",
		Short: "Show which scope gives an entry's value to a node",
		Long: `explain asks every scope of a node's hierarchy for an entry and shows which gives the
value, and which are hidden by a more specific one. ENTRY is a Hiera key or one member
of a hash; with a member, all of the hash is explained. The hierarchy is the one that
the node reported last; of a node that never reported, it is node.hierarchy of this
machine's configuration, with the node's name; or it is given by --scope, most
specific first. Secrets are never shown.`,
		Example: `  bellpull explain 'my_firewall::rules[tcp-8443]' --node web1.example.com
  bellpull explain motd --scope node/web1.example.com --scope group/web --scope common`,
		Args: arguments(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := schemas.CheckName(args[0]); err != nil {
				return err
			}
			if node == "" && len(scopes) == 0 {
				return cli.Usage(errors.New("--node CERTNAME or --scope SCOPE is wanted"))
			}
			var given []schemas.Scope
			for _, text := range scopes {
				scope, err := schemas.ParseScope(text)
				if err != nil {
					return cli.Usage(fmt.Errorf("--scope: %w", err))
				}
				given = append(given, scope)
			}
			return a.explain(cmd.Context(), args[0], node, given)
		},
	}
	cmd.Flags().StringVar(&node, "node", "", "the node's `certname`")
	cmd.Flags().StringArrayVar(&scopes, "scope", nil, "a `scope` of the hierarchy, most specific first; may be repeated")
	return cmd
}

func (a *app) explain(ctx context.Context, entry, node string, scopes []schemas.Scope) error {
	cfg, err := config.Load(a.configFile)
	if err != nil {
		return err
	}
	bucket, ctx, done, err := dial(ctx, cfg)
	if err != nil {
		return err
	}
	defer done()
	key, _, _ := schemas.SplitName(entry)
	e := explanation{Key: key, Node: node, Hierarchy: "flags", Scopes: []explainedScope{}}
	var status *schemas.Status
	if node != "" {
		if status, err = statusOf(ctx, bucket, node); err != nil {
			return err
		}
	}
	if len(scopes) == 0 {
		if scopes, e.Hierarchy, err = hierarchy(cfg, node, status); err != nil {
			return err
		}
	}
	reading, err := bucket.Read(ctx, scopes)
	if err != nil {
		return err
	}
	if reading.Bucket == "" {
		return errNoID
	}
	e.fill(reading)
	for _, s := range e.Scopes {
		if s.Error != "" {
			a.warn("%s; nodes go on with what they read of it last", s.Error)
		}
	}
	if status != nil {
		for _, scope := range scopes {
			for _, name := range status.Scopes[scope].Pending {
				if k, _, _ := schemas.SplitName(name); k == key {
					e.Pending = append(e.Pending, fmt.Sprintf("%s in %s", name, scope))
				}
			}
		}
	}
	if err := a.printExplanation(e); err != nil {
		return err
	}
	if !e.Found && e.Error == "" {
		return fmt.Errorf("%w: no scope of the hierarchy has %s", schemas.ErrNotFound, key)
	}
	if e.Error != "" {
		return fmt.Errorf("%w: %s: %s", schemas.ErrInvalid, key, e.Error)
	}
	return nil
}

// statusOf is what a node reported last; nil if it never did.
func statusOf(ctx context.Context, bucket *natskv.Bucket, node string) (*schemas.Status, error) {
	all, err := bucket.Statuses(ctx)
	if err != nil {
		return nil, err
	}
	for _, s := range all {
		if s.Node == node && s.Err == nil {
			return &s.Status, nil
		}
	}
	return nil, nil
}

// hierarchy finds a node's scopes, and tells where.
func hierarchy(cfg config.Config, node string, status *schemas.Status) ([]schemas.Scope, string, error) {
	cfg.Node.Certname, cfg.NATS.TLS.Cert = node, "" // this machine's certificate tells nothing of the node
	scopes, err := cfg.Scopes()
	if status == nil || len(status.Scopes) == 0 {
		return scopes, "config", err
	}
	// A status knows the scopes but not their order: that of the configuration, then
	// the more specific ones, those with more segments, first.
	rank := func(s schemas.Scope) int {
		head, _, _ := strings.Cut(string(s), "/")
		for i, line := range cfg.Node.Hierarchy {
			if level, _, _ := strings.Cut(line, "/"); level == head {
				return i
			}
		}
		return len(cfg.Node.Hierarchy) - strings.Count(string(s), "/")
	}
	var reported []schemas.Scope
	for scope := range status.Scopes {
		reported = append(reported, scope)
	}
	slices.SortFunc(reported, func(a, b schemas.Scope) int {
		if d := rank(a) - rank(b); d != 0 {
			return d
		}
		return strings.Compare(string(a), string(b))
	})
	return reported, "status", nil
}

// fill tells what the scopes hold of the key and what follows from it.
func (e *explanation) fill(reading schemas.Reading) {
	var layers []schemas.Layer
	for _, r := range reading.Scopes {
		s := explainedScope{Scope: r.Scope, Revision: r.Revision, Entries: map[string]entryView{}}
		if r.Err != nil {
			s.Error = r.Err.Error()
		} else {
			layers = append(layers, schemas.Layer{Scope: r.Scope, Revision: r.Revision, Document: r.Document})
		}
		for name, entry := range r.Document.Entries {
			if k, _, isMember := schemas.SplitName(name); k == e.Key {
				if entry.Expired(reading.At) {
					s.Expired = append(s.Expired, name)
					continue
				}
				s.Entries[name] = *shown(&entry)
				e.Merged = e.Merged || isMember
			}
		}
		slices.Sort(s.Expired)
		e.Scopes = append(e.Scopes, s)
	}
	merged := schemas.Merge(layers, time.Now())
	if clash, ok := merged.Invalid[e.Key]; ok {
		e.Error = clash.Error()
	}
	v, ok := merged.Values[e.Key]
	if !ok {
		return
	}
	e.Found, e.Sensitive = true, v.Sensitive
	if !v.Sensitive {
		e.Value = v.Value
	}
	for i := range e.Scopes {
		for _, o := range v.Origin {
			if o.Scope != e.Scopes[i].Scope {
				continue
			}
			name := o.Entry
			if o.Member != "" {
				name = schemas.JoinName(e.Key, o.Member)
			}
			e.Scopes[i].Wins = append(e.Scopes[i].Wins, name)
		}
	}
}

func (a *app) printExplanation(e explanation) error {
	return a.print(e, func(row func(...any)) {
		row("SCOPE", "REVISION", "ENTRY", "VALUE", "SOURCE", "TIME", "")
		for _, s := range e.Scopes {
			if s.Error != "" {
				row(s.Scope, s.Revision, "(unreadable)", s.Error)
				continue
			}
			if len(s.Entries)+len(s.Expired) == 0 {
				row(s.Scope, s.Revision, "-")
			}
			for _, name := range slices.Sorted(maps.Keys(s.Entries)) {
				v := s.Entries[name]
				row(s.Scope, s.Revision, name, v.text(), who(v.Source, v.Event), stamp(v.Time), s.verdict(name))
			}
			for _, name := range s.Expired {
				row(s.Scope, s.Revision, name, "", "", "", "expired")
			}
		}
		switch {
		case e.Error != "":
			row("contradiction: " + e.Error)
		case !e.Found:
			row(e.Key + " has no value")
		case e.Sensitive:
			row(e.Key + " = " + masked)
		default:
			row(e.Key + " = " + string(e.Value))
		}
		if e.Merged {
			row("its members are merged over the scopes; Hiera does so with lookup_options: {" + e.Key + ": {merge: hash}}")
		}
		for _, p := range e.Pending {
			row("not applied yet: " + p)
		}
	})
}

// verdict tells whether the value has something from an entry.
func (s explainedScope) verdict(name string) string {
	if slices.Contains(s.Wins, name) {
		return "wins"
	}
	if _, _, isMember := schemas.SplitName(name); !isMember { // a plain hash counts as its members
		for _, win := range s.Wins {
			if key, _, ok := schemas.SplitName(win); ok && key == name {
				return "wins in part"
			}
		}
	}
	return "hidden"
}
