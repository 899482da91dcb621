package bench

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// CheckDisk compares an estimate of what is needed, in bytes, with what a
// folder's file system has, before anything is put there.
func CheckDisk(dir string, needed int64) error {
	var fs unix.Statfs_t
	if err := unix.Statfs(dir, &fs); err != nil {
		return fmt.Errorf("cannot ask how much room \"%s\" has: %w", dir, err)
	}
	if free := int64(fs.Bavail) * fs.Bsize; free < needed {
		return fmt.Errorf("the disk is too small: about %d MB are needed in \"%s\", and %d MB are free; "+
			"measure less, or set TMPDIR to another folder", needed>>20, dir, free>>20)
	}
	return nil
}
