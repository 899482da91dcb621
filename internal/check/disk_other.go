// Stubs for systems on which the use of a disk cannot be determined.

//go:build !unix

package check

import "errors"

// usage always fails.
func usage(string) (percent, free float64, err error) {
	return 0, 0, errors.New("how full the disk is cannot be found out on this system")
}

// inodeOf never knows the inode.
func inodeOf(string) (inode uint64, ok bool) { return 0, false }
