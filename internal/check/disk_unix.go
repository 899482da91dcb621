// How full the disk is, and which file a name is, on systems that have statfs and inodes.

//go:build unix

package check

import "golang.org/x/sys/unix"

// usage returns the used part of a path's file system, in percent as df shows it, and the free bytes.
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

// inodeOf returns the inode of a file.
func inodeOf(path string) (inode uint64, ok bool) {
	var s unix.Stat_t
	if unix.Stat(path, &s) != nil {
		return 0, false
	}
	return uint64(s.Ino), true
}
