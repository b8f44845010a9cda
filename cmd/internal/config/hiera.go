package config

import (
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/bellpull/bellpull/schemas"
)

// Hiera shapes the data files for Puppet Server.
type Hiera struct {
	Dir      string   `yaml:"dir"`      // default <state>/hiera
	Prefixes []string `yaml:"prefixes"` // scopes to keep, by leading path segments; default all
	// Group may read the files. Default: puppet, where there is such a group and the
	// sync runs as root; elsewhere the group that the system gives them.
	Group string `yaml:"group"`
	// Buckets are further buckets, by name, each in a directory of its own.
	Buckets map[string]HieraBucket `yaml:"buckets"`
}

// HieraBucket is a further bucket, such as that of an environment in which data
// are tried first.
type HieraBucket struct {
	Dir      string   `yaml:"dir"` // default <hiera.dir>/buckets/<name>
	Prefixes []string `yaml:"prefixes"`
}

// Source is a bucket and the directory of its data files.
type Source struct {
	Bucket   string
	Dir      string
	Prefixes []string
}

// Sources returns every bucket that is kept as data files: the bucket itself, and
// the further ones sorted by name.
func (c *Config) Sources() []Source {
	sources := []Source{{c.Bucket, c.Hiera.Dir, c.Hiera.Prefixes}}
	for _, name := range slices.Sorted(maps.Keys(c.Hiera.Buckets)) {
		b := c.Hiera.Buckets[name]
		if b.Dir == "" {
			b.Dir = filepath.Join(c.Hiera.Dir, "buckets", name)
		}
		sources = append(sources, Source{name, b.Dir, b.Prefixes})
	}
	return sources
}

func (c *Config) checkHiera(fault func(key, message string)) {
	taken := map[string]string{}
	for i, source := range c.Sources() {
		key := "hiera"
		if i > 0 {
			key = "hiera.buckets." + source.Bucket
		}
		switch {
		case i > 0 && source.Bucket == c.Bucket:
			fault(key, "is the bucket itself, whose directory is hiera.dir")
		case i > 0 && !bucketName(source.Bucket):
			fault(key, "must be made of A-Z a-z 0-9 _ -")
		case !filepath.IsAbs(source.Dir):
			fault(key+".dir", "must be an absolute path")
		}
		dir := filepath.Clean(source.Dir)
		if other, ok := taken[dir]; ok {
			fault(key+".dir", "is the directory of "+other+", too")
		}
		taken[dir] = key
		for _, prefix := range source.Prefixes {
			if _, err := schemas.ParseScope(strings.TrimRight(prefix, "/")); err != nil {
				fault(key+".prefixes", err.Error())
			}
		}
	}
}
