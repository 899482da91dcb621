// How full the disk is, on systems where that is not known.

//go:build !unix

package check

import "errors"

// usage is not known here.
func usage(string) (percent, free float64, err error) {
	return 0, 0, errors.New("how full the disk is cannot be found out on this system")
}

// inodeOf is not known here.
func inodeOf(string) (inode uint64, ok bool) { return 0, false }
