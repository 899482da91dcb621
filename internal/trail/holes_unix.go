//go:build linux || darwin

// Holes of sparse files.

package trail

import (
	"errors"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// NextData returns where a file may have other bytes than zeros, from an offset on; its end if there are none.
// It skips holes, because a sparse file can be longer than anybody can read.
func NextData(r io.ReaderAt, at int64) int64 {
	f, ok := r.(*os.File)
	if !ok {
		return at
	}
	data, err := f.Seek(at, unix.SEEK_DATA)
	if err == nil {
		return data
	}
	if info, statErr := f.Stat(); errors.Is(err, unix.ENXIO) && statErr == nil {
		return max(at, info.Size())
	}
	return at
}
