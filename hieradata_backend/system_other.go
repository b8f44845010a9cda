//go:build !unix

package hieradata

import (
	"io/fs"
	"os"
)

// lockDirectory keeps nobody out here: Puppet Server runs on Unix only.
func lockDirectory(path string) (*os.File, error) { return os.Open(path) }

// groupOf tells of no group: there are none here.
func groupOf(fs.FileInfo) int { return -1 }
