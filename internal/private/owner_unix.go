//go:build unix

package private

import (
	"io/fs"
	"syscall"
)

// OwnerOf returns the account that a file belongs to.
func OwnerOf(info fs.FileInfo) (owner Owner, ok bool) {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return Owner{}, false
	}
	return Owner{st.Uid, st.Gid}, true
}

// names is how many names a file has.
func names(info fs.FileInfo) uint64 {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0
	}
	return uint64(st.Nlink)
}
