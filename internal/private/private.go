// Package private opens and makes files in directories that other accounts control.
//
// A path proves nothing there: whoever owns a directory on it can put a link in the
// place of what was looked at a moment ago. So every name is resolved in an open
// directory, links are not followed, and what is opened is checked on its descriptor.
package private

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
)

// ErrNotRegular is what a name stands for that is not a regular file.
var ErrNotRegular = errors.New("not a regular file")

// Owner is the account that a file belongs to.
type Owner struct{ UID, GID uint32 }

// Owners are the accounts whose files are trusted.
type Owners []uint32

// Check says why a file or directory is not to be trusted: it belongs to another
// account, others can write to it, or, of a file, it has a second name, which somebody
// can have given to a file that was never meant to stand here.
func (o Owners) Check(info fs.FileInfo) error {
	owner, ok := OwnerOf(info)
	switch {
	case !ok:
		return errors.New("its owner is not known")
	case !slices.Contains(o, owner.UID):
		return fmt.Errorf("belongs to user ID %d", owner.UID)
	case info.Mode().Perm()&0o022 != 0:
		return fmt.Errorf("is writable by others (mode %04o)", info.Mode().Perm())
	case !info.IsDir() && names(info) != 1:
		return fmt.Errorf("has %d names", names(info))
	}
	return nil
}

// GiveToOwner gives what root has created to the owner of a directory, so that this account can read it. Anybody else
// keeps it.
func GiveToOwner(made interface{ Chown(uid, gid int) error }, directory fs.FileInfo) error {
	owner, ok := OwnerOf(directory)
	if !ok || os.Geteuid() != 0 {
		return nil
	}
	return made.Chown(int(owner.UID), int(owner.GID))
}
