package result

import (
	"archive/tar"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"

	"github.com/klauspost/compress/zstd"
)

// packedFile is the raw data of archived runs that were made together.
const packedFile = "raw.tar.zst"

// ReadFile reads a file of a run's folder. Runs that are packed are read from the
// archive: the folder "runs/today/select" is "select/" in runs/today/raw.tar.zst.
func ReadFile(dir, name string) ([]byte, error) {
	data, err := os.ReadFile(filepath.Join(dir, name))
	if !errors.Is(err, fs.ErrNotExist) {
		return data, err
	}
	dir, absErr := filepath.Abs(dir)
	if absErr != nil {
		return nil, err
	}
	packed, packedErr := readPacked(filepath.Join(filepath.Dir(dir), packedFile), path.Join(filepath.Base(dir), name))
	if errors.Is(packedErr, fs.ErrNotExist) {
		return nil, err
	}
	return packed, packedErr
}

// readPacked reads a member of an archive.
func readPacked(archive, member string) ([]byte, error) {
	f, err := os.Open(archive)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	z, err := zstd.NewReader(f)
	if err != nil {
		return nil, err
	}
	defer z.Close()
	for r := tar.NewReader(z); ; {
		header, err := r.Next()
		if err == io.EOF {
			return nil, &fs.PathError{Op: "read", Path: member, Err: fs.ErrNotExist}
		}
		if err != nil {
			return nil, &fs.PathError{Op: "read", Path: archive, Err: err}
		}
		if path.Clean(header.Name) == member {
			return io.ReadAll(r)
		}
	}
}
