//go:build linux || darwin

// Holes of sparse files.

package trail

import (
	"errors"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// NextData is where a file may have something else than zeros, from an offset on; its
// end when there is nothing else. What was never written is left out so: a sparse file
// can be longer than anybody can read.
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
