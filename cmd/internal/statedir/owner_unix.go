//go:build unix

package statedir

import (
	"io/fs"
	"syscall"
)

// ownerOf returns the user id that owns a file, and whether the system tells.
func ownerOf(info fs.FileInfo) (uid int, known bool) {
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, false
	}
	return int(stat.Uid), true
}
