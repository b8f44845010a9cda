package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/google/renameio/v2"
	"github.com/spf13/cobra"

	"github.com/bellpull/bellpull/cmd/internal/cli"
	"github.com/bellpull/bellpull/cmd/internal/datadir"
	"github.com/bellpull/bellpull/cmd/internal/natskv"
	"github.com/bellpull/bellpull/schemas"
)

type exportAnswer struct {
	Dir     string   `json:"dir"`
	Scopes  int      `json:"scopes"`
	Entries int      `json:"entries"`
	Secrets int      `json:"secrets"`
	Files   []string `json:"files"`
}

func (a *app) exportCommand() *cobra.Command {
	var prefix string
	var force bool
	cmd := &cobra.Command{
		Use:   "export DIR",
		Short: "Write the bucket's scopes as a directory of data files",
		Long: `export writes each scope that has entries as a YAML data file below DIR, as apply
reads them and as Hiera does. What an entry has beside its value stands in the same
file under the key bellpull::meta: kind, sensitive, expires, run, and owner where it
is not the one that apply would write. Applying what was exported changes nothing.

Files that hold secrets can be read by their owner only. DIR must not hold data
files; with --force those of the same scopes are replaced.`,
		Example: `  bellpull export data
  bellpull export /tmp/groups --prefix group`,
		Args: arguments(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if prefix = strings.TrimSuffix(prefix, "/"); prefix != "" {
				if _, err := schemas.ParseScope(prefix); err != nil {
					return cli.Usage(fmt.Errorf("--prefix: %w", err))
				}
			}
			bucket, _, done, err := a.dial(cmd.Context())
			if err != nil {
				return err
			}
			defer done()
			files, err := exported(cmd.Context(), bucket, prefix)
			if err != nil {
				return err
			}
			return a.export(args[0], files, force)
		},
	}
	cmd.Flags().StringVar(&prefix, "prefix", "", "write only the scope `PREFIX` and those below it")
	cmd.Flags().BoolVar(&force, "force", false, "replace files that are there")
	return cmd
}

// exportFile is one file to write.
type exportFile struct {
	path             string
	text             []byte
	entries, secrets int
}

// exported makes the files of all scopes. It has no deadline of its own: each question to the bucket has.
func exported(ctx context.Context, bucket *natskv.Bucket, prefix string) ([]exportFile, error) {
	infos, err := bucket.Scopes(ctx, prefix)
	if err != nil {
		return nil, err
	}
	var scopes []schemas.Scope
	for _, info := range infos {
		if !info.Foreign && !info.Deleted && below(info.Scope, prefix) {
			scopes = append(scopes, info.Scope)
		}
	}
	var files []exportFile
	for part := range slices.Chunk(scopes, lsBatch) {
		reading, err := bucket.Read(ctx, part)
		if err != nil {
			return nil, err
		}
		if reading.Bucket == "" {
			return nil, errNoID
		}
		for _, r := range reading.Scopes {
			f, err := exportScope(r, "apply:"+prefix, reading.At)
			if err != nil {
				return nil, err
			}
			if f.entries > 0 {
				files = append(files, f)
			}
		}
	}
	return files, nil
}

func exportScope(r schemas.ScopeReading, owner string, now time.Time) (f exportFile, err error) {
	if errors.Is(r.Err, schemas.ErrInvalid) {
		return f, fmt.Errorf("%w; see `bellpull history %s`", r.Err, r.Scope)
	}
	if r.Err != nil {
		return f, r.Err
	}
	var entries []datadir.Entry
	for name, e := range r.Document.Live(now) {
		entries = append(entries, datadir.Entry{Name: name, Value: e.Value, Meta: datadir.Meta{
			Kind: e.Kind, Sensitive: e.Sensitive, Expires: e.Expires, Run: e.Run, Owner: e.Owner, HasOwner: e.Owner != owner,
		}})
		if e.Sensitive {
			f.secrets++
		}
	}
	if f.entries = len(entries); f.entries == 0 {
		return f, nil
	}
	if f.path, err = datadir.Path(r.Scope); err != nil {
		return f, err
	}
	if f.text, err = datadir.Marshal(entries); err != nil {
		return f, fmt.Errorf("scope %s: %w", r.Scope, err)
	}
	return f, nil
}

// export writes the files, each whole or not at all, and tells what it wrote.
func (a *app) export(dir string, files []exportFile, force bool) error {
	answer := exportAnswer{Dir: dir, Files: []string{}}
	if err := a.mayWrite(dir, files, force); err != nil {
		return err
	}
	for _, f := range files {
		path := filepath.Join(dir, filepath.FromSlash(f.path))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return fmt.Errorf("write data files: %w", err)
		}
		mode := fs.FileMode(0o644)
		if f.secrets > 0 {
			mode = 0o600
		}
		if err := renameio.WriteFile(path, f.text, mode, renameio.IgnoreUmask()); err != nil {
			return fmt.Errorf("write data file %s: %w", path, err)
		}
		answer.Scopes, answer.Entries, answer.Secrets = answer.Scopes+1, answer.Entries+f.entries, answer.Secrets+f.secrets
		answer.Files = append(answer.Files, f.path)
	}
	if answer.Secrets > 0 {
		a.warn("%d secrets are in the files as they are; such files have mode 0600, which git does not keep", answer.Secrets)
	}
	return a.print(answer, func(row func(...any)) {
		row("FILE", "ENTRIES", "SECRETS")
		for _, f := range files {
			row(f.path, f.entries, f.secrets)
		}
	})
}

// mayWrite says what is in the way.
func (a *app) mayWrite(dir string, files []exportFile, force bool) error {
	standing, err := datadir.List(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist) || err == nil && len(standing) == 0:
		return nil
	case err != nil:
		return err
	case !force:
		return fmt.Errorf("%w: %s holds data files, such as %s; --force replaces those of the same scopes", schemas.ErrConflict, dir, standing[0].Path)
	}
	written := map[schemas.Scope]string{}
	for _, f := range files {
		written[schemas.Scope(strings.TrimSuffix(f.path, ".yaml"))] = f.path
	}
	for _, f := range standing {
		path, same := written[f.Scope]
		if same && path != f.Path {
			return fmt.Errorf("%w: %s stands for scope %s, which is written as %s", schemas.ErrConflict, filepath.Join(dir, f.Path), f.Scope, path)
		}
		if !same {
			a.warn("%s was there before and is left: the bucket has no such scope", filepath.Join(dir, f.Path))
		}
	}
	return nil
}
