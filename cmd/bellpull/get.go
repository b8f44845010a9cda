package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/bellpull/bellpull/cmd/internal/natskv"
	"github.com/bellpull/bellpull/schemas"
)

type documentView struct {
	Scope    schemas.Scope        `json:"scope"`
	Revision uint64               `json:"revision"`
	Time     time.Time            `json:"time"`
	Entries  map[string]entryView `json:"entries"`
}

// entryView is an entry as the command line shows it.
type entryView struct {
	Value     schemas.Value `json:"value,omitzero"`
	Kind      string        `json:"kind,omitzero"`
	Event     string        `json:"event,omitzero"`
	Source    string        `json:"source,omitzero"`
	Time      time.Time     `json:"time,omitzero"`
	Expires   time.Time     `json:"expires,omitzero"`
	Sensitive bool          `json:"sensitive,omitzero"`
	Run       *runView      `json:"run,omitzero"`
	Owner     string        `json:"owner,omitzero"`
}

type runView struct {
	Trigger schemas.Trigger `json:"trigger,omitzero"`
	Splay   string          `json:"splay,omitzero"`
	Tags    []string        `json:"tags,omitempty"`
	Noop    bool            `json:"noop,omitzero"`
}

func view(e schemas.Entry) entryView {
	return entryView{
		Value: e.Value, Kind: e.Kind, Event: e.Event, Source: e.Source, Time: e.Time,
		Expires: e.Expires, Sensitive: e.Sensitive, Run: viewRun(e.Run), Owner: e.Owner,
	}
}

// viewRun returns nil for a policy that asks for nothing.
func viewRun(p schemas.RunPolicy) *runView {
	if p.IsZero() {
		return nil
	}
	v := &runView{Trigger: p.Trigger, Tags: p.Tags, Noop: p.Noop}
	if p.Splay > 0 {
		v.Splay = p.Splay.String()
	}
	return v
}

// masked is what stands for a secret where nobody asked for it.
const masked = "(sensitive)"

func (a *app) getCommand() *cobra.Command {
	var revision uint64
	cmd := &cobra.Command{
		Use:   "get SCOPE [ENTRY]",
		Short: "Show a scope's entries, or one entry's value",
		Long: `get shows what a scope's document says now: all its entries, or the value of one.
Entries that have expired are gone. With --revision it shows what that revision
held, expired entries too.

JSON and YAML hold secrets as they are; the table of a whole scope masks them.`,
		Example: `  bellpull get group/web
  bellpull get group/web 'my_firewall::rules[tcp-8443]'
  bellpull get group/web --revision 812`,
		Args: arguments(1, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			scope, err := schemas.ParseScope(args[0])
			if err != nil {
				return err
			}
			if len(args) == 2 {
				if err := schemas.CheckName(args[1]); err != nil {
					return err
				}
			}
			bucket, ctx, done, err := a.dial(cmd.Context())
			if err != nil {
				return err
			}
			defer done()
			var v documentView
			if cmd.Flags().Changed("revision") {
				v, err = past(ctx, bucket, scope, revision)
			} else {
				v, err = present(ctx, bucket, scope)
			}
			if err != nil {
				return err
			}
			if len(args) == 2 {
				return a.printEntry(v, args[1])
			}
			return a.printDocument(v)
		},
	}
	cmd.Flags().Uint64Var(&revision, "revision", 0, "show this `revision` of the scope")
	return cmd
}

// present is what a scope says now.
func present(ctx context.Context, bucket *natskv.Bucket, scope schemas.Scope) (documentView, error) {
	reading, err := bucket.Read(ctx, []schemas.Scope{scope})
	if err != nil {
		return documentView{}, err
	}
	r := reading.Scopes[0]
	switch {
	case reading.Bucket == "":
		return documentView{}, errNoID
	case errors.Is(r.Err, schemas.ErrInvalid):
		return documentView{}, fmt.Errorf("%w; see `bellpull history %s`", r.Err, scope)
	case r.Err != nil:
		return documentView{}, r.Err
	case r.Revision == 0:
		return documentView{}, fmt.Errorf("%w: scope %s has no document", schemas.ErrNotFound, scope)
	case r.Deleted:
		return documentView{}, fmt.Errorf("%w: scope %s has no document, it was deleted at revision %d", schemas.ErrNotFound, scope, r.Revision)
	}
	v := documentView{Scope: scope, Revision: r.Revision, Time: r.Time, Entries: map[string]entryView{}}
	for name, e := range r.Document.Live(time.Now()) {
		v.Entries[name] = view(e)
	}
	return v, nil
}

// errNoID: what such a bucket holds may be half of a restore.
var errNoID = fmt.Errorf("%w: the bucket has no id; run `bellpull init`", schemas.ErrUnavailable)

// past is what a revision of a scope held.
func past(ctx context.Context, bucket *natskv.Bucket, scope schemas.Scope, revision uint64) (documentView, error) {
	r, err := bucket.At(ctx, scope, revision)
	if err != nil {
		return documentView{}, err
	}
	if r.Deleted {
		return documentView{}, fmt.Errorf("%w: scope %s was deleted at revision %d", schemas.ErrNotFound, scope, revision)
	}
	doc, err := schemas.ParseDocument(r.Body)
	if err != nil {
		return documentView{}, fmt.Errorf("scope %s, revision %d: %w", scope, revision, err)
	}
	v := documentView{Scope: scope, Revision: r.Revision, Time: r.Time, Entries: map[string]entryView{}}
	for name, e := range doc.Dated(r.Time).Entries {
		v.Entries[name] = view(e)
	}
	return v, nil
}

func (a *app) printEntry(v documentView, name string) error {
	entry, ok := v.Entries[name]
	if !ok {
		return fmt.Errorf("%w: scope %s has no entry %q at revision %d", schemas.ErrNotFound, v.Scope, name, v.Revision)
	}
	return a.print(entry.Value, func(row func(...any)) { row(entry.Value) })
}

func (a *app) printDocument(v documentView) error {
	return a.print(v, func(row func(...any)) {
		row("ENTRY", "VALUE", "KIND", "EXPIRES", "SOURCE", "TIME")
		for _, name := range slices.Sorted(maps.Keys(v.Entries)) {
			e := v.Entries[name]
			value, expires := string(e.Value), ""
			if e.Sensitive {
				value = masked
			}
			if !e.Expires.IsZero() {
				expires = stamp(e.Expires)
			}
			row(name, value, e.Kind, expires, e.Source, stamp(e.Time))
		}
	})
}
