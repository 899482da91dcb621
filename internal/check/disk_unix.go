// How full the disk is, and which file a name is, on systems that have statfs and inodes.

//go:build unix

package check

import "golang.org/x/sys/unix"

// usage is what is used of the file system of a path, in percent as df shows it, and what is free in bytes.
func usage(path string) (percent, free float64, err error) {
	var s unix.Statfs_t
	if err := unix.Statfs(path, &s); err != nil {
		return 0, 0, err
	}
	available, all := float64(s.Bavail), float64(s.Blocks)
	used := all - float64(s.Bfree)
	if used+available > 0 {
		percent = 100 * used / (used + available)
	}
	return percent, available * float64(s.Bsize), nil
}

// inodeOf is the number of a file on its disk.
func inodeOf(path string) (inode uint64, ok bool) {
	var s unix.Stat_t
	if unix.Stat(path, &s) != nil {
		return 0, false
	}
	return uint64(s.Ino), true
}
