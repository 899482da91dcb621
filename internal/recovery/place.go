package recovery

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/pg-steno/pg_steno/internal/cmdutil"
	"github.com/pg-steno/pg_steno/internal/private"
)

// Where the copy goes. It is made under another name, and gets its own when it is
// complete: a directory with the name that was asked for is a whole copy.

// emptyOrNew says whether a copy may get that name.
func emptyOrNew(dir string) error {
	entries, err := os.ReadDir(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return cmdutil.Usagef("%s: %s", dir, pathReason(err))
	case len(entries) > 0:
		return cmdutil.Usagef("%s is not empty: name a directory that does not exist", dir)
	}
	return nil
}

// inside says whether a path is a directory or in it.
func inside(path, dir string) bool {
	path, err := filepath.Abs(path)
	if err != nil {
		return true
	}
	return path == dir || strings.HasPrefix(path, dir+"/")
}

// adopt gives the copy to the owner of the trail, which only the superuser can, and,
// with modes, the modes of its files.
func adopt(dir, like string, modes bool) error {
	info, err := os.Stat(like)
	if err != nil {
		return err
	}
	fileMode := fs.FileMode(0o600)
	if segments, _ := filepath.Glob(filepath.Join(like, "*", "*.steno")); len(segments) > 0 {
		if one, err := os.Stat(segments[0]); err == nil {
			fileMode = one.Mode().Perm()
		}
	}
	st, _ := info.Sys().(*syscall.Stat_t)
	return filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if os.Geteuid() == 0 && st != nil {
			if err := os.Lchown(path, int(st.Uid), int(st.Gid)); err != nil {
				return err
			}
		}
		switch {
		case !modes:
			return nil
		case d.IsDir():
			return os.Chmod(path, info.Mode().Perm())
		default:
			return os.Chmod(path, fileMode)
		}
	})
}

// What a server keeps in a trail beside the streams, in small files: the positions of
// readers, and where it has recorded what it deleted.
const (
	slotsFolder   = "slots"
	retentionFile = "retention"
)

// copyRest copies them: without, a server that goes on with the copy would delete what
// its readers want, and verify would not find what was deleted by policy.
func copyRest(dir, out string) error {
	if info, err := os.Lstat(filepath.Join(dir, retentionFile)); err == nil && info.Mode().IsRegular() {
		if err := copyFile(filepath.Join(dir, retentionFile), filepath.Join(out, retentionFile)); err != nil {
			return err
		}
	}
	from := filepath.Join(dir, slotsFolder)
	entries, err := os.ReadDir(from)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		err = os.Mkdir(filepath.Join(out, slotsFolder), 0o700)
	}
	if err != nil {
		return err
	}
	for _, e := range entries {
		if !e.Type().IsRegular() {
			continue
		}
		if err := copyFile(filepath.Join(from, e.Name()), filepath.Join(out, slotsFolder, e.Name())); err != nil {
			return err
		}
	}
	return nil
}

// copyFile copies a file, which is then on disk.
func copyFile(from, to string) error {
	src, err := os.Open(from)
	if err != nil {
		return err
	}
	defer src.Close()
	dst, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(dst, src)
	if err == nil {
		err = dst.Sync()
	}
	if closed := dst.Close(); err == nil {
		err = closed
	}
	return err
}

// syncDirectories makes the names in the copy durable; its files are.
func syncDirectories(dir string) error {
	return filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return err
		}
		return syncDirectory(path)
	})
}

func syncDirectory(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	// some file systems cannot sync a folder, and need not
	if err := f.Sync(); err != nil && !errors.Is(err, syscall.EINVAL) && !errors.Is(err, syscall.EBADF) {
		return err
	}
	return nil
}

// swap puts the copy in the place of the trail, and the trail beside it. The ring
// files go there, too: a server that starts would write what they hold once more.
func swap(copied, dir string, rings []*ringFile) (evidence string, err error) {
	evidence = dir + ".damaged-" + time.Now().UTC().Format("20060102T150405Z")
	if _, err := os.Lstat(evidence); err == nil {
		return "", fmt.Errorf("%s exists", evidence)
	}
	if err := os.Rename(dir, evidence); err != nil {
		return "", err
	}
	if err := os.Rename(copied, dir); err != nil {
		if back := os.Rename(evidence, dir); back != nil {
			return evidence, fmt.Errorf("%w; the trail is now %s", err, evidence)
		}
		return "", err
	}
	if err := keepRings(rings, evidence); err != nil {
		return evidence, err
	}
	return evidence, syncDirectory(filepath.Dir(dir))
}

// keepRings moves the ring files to the evidence.
func keepRings(rings []*ringFile, evidence string) error {
	if len(rings) == 0 {
		return nil
	}
	dir, err := private.OpenDir(evidence)
	if err != nil {
		return err
	}
	defer dir.Close()
	kept, err := dir.Mkdir("rings", 0o700)
	if err != nil {
		return err
	}
	defer kept.Close()
	for _, f := range rings {
		if err := f.moveTo(kept); err != nil {
			return fmt.Errorf("the trail is in place, but its ring file is still where it was: %w: move %s away before the server starts", err, f.Path)
		}
	}
	return nil
}
