package cluster

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// CheckDisk says that an estimate of what is needed, in bytes, does not fit where
// labs are made, if so.
func (i *Installation) CheckDisk(bytes uint64) error {
	parent := i.TempDir()
	var fs unix.Statfs_t
	if err := unix.Statfs(parent, &fs); err != nil {
		return fmt.Errorf("cannot determine the free space in \"%s\": %w", parent, err)
	}
	if free := fs.Bavail * uint64(fs.Bsize); free < bytes {
		return fmt.Errorf("not enough disk space: about %d MB are needed in \"%s\", but only %d MB are free; "+
			"measure less, or set TMPDIR to another directory", bytes>>20, parent, free>>20)
	}
	return nil
}
