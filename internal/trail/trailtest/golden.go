package trailtest

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"
)

// Golden unpacks the golden trails, which core/ writes, into a folder of the test.
func Golden(t testing.TB) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for {
		archive := filepath.Join(dir, "format", "golden", "trails.tar.gz")
		if _, err := os.Stat(archive); err == nil {
			return Unpack(t, archive)
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			t.Fatal("format/golden/trails.tar.gz is in no folder above")
		}
		dir = parent
	}
}

// Unpack unpacks a tar.gz archive of regular files into a folder of the test.
func Unpack(t testing.TB, archive string) string {
	t.Helper()
	dir := t.TempDir()
	if err := unpack(dir, archive); err != nil {
		t.Fatalf("%s: %v", archive, err)
	}
	return dir
}

func unpack(dir, archive string) error {
	in, err := os.Open(archive)
	if err != nil {
		return err
	}
	defer in.Close()
	plain, err := gzip.NewReader(in)
	if err != nil {
		return err
	}
	for files := tar.NewReader(plain); ; {
		header, err := files.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if header.Typeflag != tar.TypeReg || !filepath.IsLocal(header.Name) {
			continue
		}
		data, err := io.ReadAll(files)
		if err != nil {
			return err
		}
		path := filepath.Join(dir, header.Name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			return err
		}
		if err := os.WriteFile(path, data, 0o600); err != nil {
			return err
		}
	}
}
