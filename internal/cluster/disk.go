package cluster

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// CheckDisk says that so many bytes do not fit where labs are made, if so.
func (i *Installation) CheckDisk(bytes uint64) error {
	parent := i.TempDir()
	var fs unix.Statfs_t
	if err := unix.Statfs(parent, &fs); err != nil {
		return fmt.Errorf("cannot ask how much room there is in \"%s\": %w", parent, err)
	}
	if free := fs.Bavail * uint64(fs.Bsize); free < bytes {
		return fmt.Errorf("%d MB are free in \"%s\", and the servers may need %d MB; TMPDIR names another place",
			free>>20, parent, bytes>>20)
	}
	return nil
}
