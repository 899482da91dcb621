// The directory of the copy: created under a temporary name, renamed when it is complete, with the trail's owner and
// modes.

package recovery

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/pg-steno/pg_steno/internal/exit"
	"github.com/pg-steno/pg_steno/internal/private"
)

// The copy is made under a temporary name and renamed when it is complete, so a directory with the requested name is a
// complete copy.

// emptyOrNew returns an error unless a copy may get this name.
func emptyOrNew(dir string) error {
	entries, err := os.ReadDir(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return exit.Usagef("%s: %s", dir, pathReason(err))
	case len(entries) > 0:
		return exit.Usagef("%s is not empty: name a directory that does not exist", dir)
	}
	return nil
}

// inside reports whether a path is a directory or in it.
func inside(path, dir string) bool {
	path, err := filepath.Abs(path)
	if err != nil {
		return true
	}
	return path == dir || strings.HasPrefix(path, dir+"/")
}

// adopt changes the owner of the copy to that of the trail, which only root can do, and, if modes is set, its modes to
// those of the trail. It then syncs the copy.
func (r *recovery) adopt(modes bool) error {
	a := &adoption{uid: -1}
	if os.Geteuid() == 0 {
		a.uid, a.gid = int(r.owner.UID), int(r.owner.GID)
	}
	if modes {
		a.dirMode, a.fileMode = r.mode, 0o600
		if segments, _ := filepath.Glob(filepath.Join(r.trail.Path, "*", "*.steno")); len(segments) > 0 {
			if one, err := os.Stat(segments[0]); err == nil {
				a.fileMode = one.Mode().Perm()
			}
		}
	}
	return a.applyAll(r.copy)
}

// adoption is the owner and modes of files and directories; modes of 0 are not changed.
type adoption struct {
	uid, gid          int // -1: not changed
	dirMode, fileMode fs.FileMode
}

type owned interface {
	Chown(uid, gid int) error
	Chmod(mode fs.FileMode) error
}

func (a *adoption) apply(f owned, mode fs.FileMode) error {
	if mode != 0 {
		if err := f.Chmod(mode); err != nil {
			return err
		}
	}
	if a.uid < 0 {
		return nil
	}
	return f.Chown(a.uid, a.gid)
}

// applyAll adopts a directory, itself last, so that its later owner has no access before.
func (a *adoption) applyAll(dir *private.Dir) error {
	entries, err := dir.Entries()
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.IsDir() {
			sub, err := dir.Dir(e.Name())
			if err != nil {
				return err
			}
			err = a.applyAll(sub)
			sub.Close()
			if err != nil {
				return err
			}
			continue
		}
		f, err := dir.Open(e.Name())
		if err != nil {
			return err
		}
		err = a.apply(f, a.fileMode)
		f.Close()
		if err != nil {
			return err
		}
	}
	if err := dir.Sync(); err != nil {
		return err
	}
	return a.apply(dir, a.dirMode)
}

// Small files that a server keeps in a trail in addition to the streams: the slots, and where it has recorded what it
// deleted.
const (
	slotsFolder   = "slots"
	retentionFile = "retention"

	// maxSlot and maxRetention are more than a server writes into one; maxSlots is how many slots are copied.
	maxSlot      = 64 << 10
	maxRetention = 4 << 20
	maxSlots     = 10_000
)

// copyRest copies these files. Without them, a server that continues with the copy would delete segments that slots
// need, and verify would not find what was deleted by policy.
func (r *recovery) copyRest() error {
	dir, err := private.OpenDir(r.trail.Path)
	if err != nil {
		return err
	}
	defer dir.Close()
	if mode, err := dir.Lstat(retentionFile); err == nil && mode.IsRegular() {
		if err := r.copyFile(dir, r.copy, retentionFile, maxRetention); err != nil {
			return err
		}
	}
	from, err := dir.Dir(slotsFolder)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		// a link or a file, which a server does not create
		r.report.Errors = append(r.report.Errors, fmt.Sprintf("%s: the slots are not copied", err))
		return nil
	}
	defer from.Close()
	to, err := r.copy.Mkdir(slotsFolder, 0o700)
	if err != nil {
		return err
	}
	defer to.Close()
	entries, err := from.Entries()
	if err != nil {
		return err
	}
	copied := 0
	for _, e := range entries {
		if !e.Type().IsRegular() {
			continue
		}
		if copied++; copied > maxSlots {
			r.report.Errors = append(r.report.Errors,
				fmt.Sprintf("%s: only the first %d slots are copied", from.Path(), maxSlots))
			return nil
		}
		if err := r.copyFile(from, to, e.Name(), maxSlot); err != nil {
			return err
		}
	}
	return nil
}

// copyFile copies and syncs a file. If it must not be copied, or is longer than a server makes it, that is an error
// in the report.
func (r *recovery) copyFile(from, to *private.Dir, name string, most int64) error {
	src, err := from.Open(name)
	if err == nil {
		defer src.Close()
		why := r.mayCopy(src)
		if info, failed := src.Stat(); why == nil && failed == nil && info.Size() > most {
			why = fmt.Errorf("it has %d bytes, and a server writes at most %d", info.Size(), most)
		}
		if why != nil {
			err = &fs.PathError{Op: "copy", Path: filepath.Join(from.Path(), name), Err: why}
		}
	}
	if err != nil {
		r.report.Errors = append(r.report.Errors, fmt.Sprintf("%s: it is not copied", err))
		return nil
	}
	dst, err := to.Create(name, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(dst, io.LimitReader(src, most)) // it may grow
	if err == nil {
		err = dst.Sync()
	}
	if closed := dst.Close(); err == nil {
		err = closed
	}
	return err
}

// swap replaces the trail by the copy, and renames the trail to the evidence directory. The ring files are moved
// there, too: a server that starts would write their records once more.
func (r *recovery) swap(parent *private.Dir, made string) (evidence string, err error) {
	name := filepath.Base(r.final)
	kept := name + ".damaged-" + time.Now().UTC().Format("20060102T150405Z")
	evidence = filepath.Join(filepath.Dir(r.final), kept)
	if _, err := parent.Lstat(kept); err == nil {
		return "", fmt.Errorf("%s exists", evidence)
	}
	if err := parent.Rename(name, kept); err != nil {
		return "", err
	}
	if err := parent.Rename(made, name); err != nil {
		if back := parent.Rename(kept, name); back != nil {
			return evidence, fmt.Errorf("%w; the trail is now %s", err, evidence)
		}
		return "", err
	}
	if err := r.keepRings(parent, kept); err != nil {
		return evidence, err
	}
	return evidence, parent.Sync()
}

// keepRings moves the ring files to the evidence.
func (r *recovery) keepRings(parent *private.Dir, evidence string) error {
	if len(r.files) == 0 {
		return nil
	}
	dir, err := parent.Dir(evidence)
	if err != nil {
		return err
	}
	defer dir.Close()
	kept, err := dir.Mkdir("rings", 0o700)
	if err != nil {
		return err
	}
	defer kept.Close()
	for _, f := range r.files {
		if err := f.moveTo(kept); err != nil {
			return fmt.Errorf("the trail is in place, but its ring file is still where it was: %w: move %s away "+
				"before the server starts", err, f.Path)
		}
	}
	return nil
}
