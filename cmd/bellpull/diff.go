package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/bellpull/bellpull/cmd/internal/cli"
	"github.com/bellpull/bellpull/cmd/internal/natskv"
	"github.com/bellpull/bellpull/schemas"
)

// diffView tells two revisions apart by their entries. It holds no secret.
type diffView struct {
	Scope   schemas.Scope  `json:"scope"`
	From    uint64         `json:"from"`
	To      uint64         `json:"to"`
	Entries []plannedEntry `json:"entries"`
}

func (a *app) diffCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "diff SCOPE A [B]",
		Short: "Show how the entries of two revisions of a scope differ",
		Long: `diff shows which entries revision B of a scope has that A has not, which it has no
longer, and which say something else: value, kind, expiry, run policy. Without B it
compares with what the scope says now. Entries that another event set to the same are
no difference. A deleted scope has no entries. Secrets are never shown.`,
		Example: `  bellpull diff group/web 812
  bellpull diff group/web 812 815 --output json`,
		Args: arguments(2, 3),
		RunE: func(cmd *cobra.Command, args []string) error {
			scope, err := schemas.ParseScope(args[0])
			if err != nil {
				return err
			}
			var numbers []uint64
			for _, arg := range args[1:] {
				n, err := strconv.ParseUint(arg, 10, 64)
				if err != nil || n == 0 {
					return cli.Usage(fmt.Errorf("%q is no revision; `bellpull history %s` shows them", arg, scope))
				}
				numbers = append(numbers, n)
			}
			bucket, ctx, done, err := a.dial(cmd.Context())
			if err != nil {
				return err
			}
			defer done()
			v, err := difference(ctx, bucket, scope, numbers)
			if err != nil {
				return err
			}
			return a.printDiff(v)
		},
	}
}

// difference compares the revisions, of which the second may be left out.
func difference(ctx context.Context, bucket *natskv.Bucket, scope schemas.Scope, numbers []uint64) (diffView, error) {
	v := diffView{Scope: scope, From: numbers[0], Entries: []plannedEntry{}}
	from, err := held(ctx, bucket, scope, v.From)
	if err != nil {
		return diffView{}, err
	}
	var to map[string]schemas.Entry
	if len(numbers) == 2 {
		v.To = numbers[1]
		to, err = held(ctx, bucket, scope, v.To)
	} else {
		v.To, to, err = standing(ctx, bucket, scope)
	}
	if err != nil {
		return diffView{}, err
	}
	for _, name := range slices.Sorted(maps.Keys(from)) {
		old := from[name]
		e := plannedEntry{Scope: scope, Entry: name, Old: shown(&old)}
		switch next, ok := to[name]; {
		case !ok:
			e.Action = actionRemove
		case next.SameContent(old):
			continue
		default:
			e.Action, e.New = actionChange, shown(&next)
		}
		v.Entries = append(v.Entries, e)
	}
	for _, name := range slices.Sorted(maps.Keys(to)) {
		if _, ok := from[name]; !ok {
			next := to[name]
			v.Entries = append(v.Entries, plannedEntry{Action: actionAdd, Scope: scope, Entry: name, New: shown(&next)})
		}
	}
	slices.SortFunc(v.Entries, func(a, b plannedEntry) int { return strings.Compare(a.Entry, b.Entry) })
	return v, nil
}

// held are the entries of a revision, those that have expired since too; none of a
// deletion.
func held(ctx context.Context, bucket *natskv.Bucket, scope schemas.Scope, revision uint64) (map[string]schemas.Entry, error) {
	if r, err := bucket.At(ctx, scope, revision); err == nil && r.Deleted {
		return nil, nil
	}
	doc, err := stored(ctx, bucket, scope, revision)
	return doc.Entries, err
}

// standing are the entries that a scope has now, and its revision.
func standing(ctx context.Context, bucket *natskv.Bucket, scope schemas.Scope) (uint64, map[string]schemas.Entry, error) {
	reading, err := bucket.Read(ctx, []schemas.Scope{scope})
	if err != nil {
		return 0, nil, err
	}
	r := reading.Scopes[0]
	if reading.Bucket == "" {
		return 0, nil, errNoID
	}
	return r.Revision, maps.Collect(r.Document.Live(time.Now())), r.Err
}

func (a *app) printDiff(v diffView) error {
	return a.print(v, func(row func(...any)) {
		if len(v.Entries) == 0 {
			row(fmt.Sprintf("%s says the same at revisions %d and %d", v.Scope, v.From, v.To))
			return
		}
		for _, e := range v.Entries {
			by := e.New
			if by == nil {
				by = e.Old
			}
			row(e.Action.sign(), e.Entry, e.words(), who(by.Source, by.Event), stamp(by.Time))
		}
	})
}
