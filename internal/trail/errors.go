// Errors: damage, and unfinished blocks.

package trail

import (
	"errors"
	"fmt"
)

// CorruptionError is a place in a file that is not what the format says.
type CorruptionError struct {
	File   string
	Offset int64
	Reason string
}

func (e *CorruptionError) Error() string {
	return fmt.Sprintf("%s: offset %d: %s", e.File, e.Offset, e.Reason)
}

// TornError is a file that ends inside a block: Bytes after Offset belong to
// an unfinished write. Last says that nothing follows it in its stream; anywhere
// else the writer has gone on without cutting it off, which is damage.
type TornError struct {
	File   string
	Offset int64
	Bytes  int64
	Reason string
	Last   bool
}

func (e *TornError) Error() string {
	return fmt.Sprintf("%s: offset %d: %s", e.File, e.Offset, e.Reason)
}

func corruptf(offset int64, format string, args ...any) error {
	return &CorruptionError{Offset: offset, Reason: fmt.Sprintf(format, args...)}
}

// inFile says in which file, and where in it the offsets of err are counted
// from.
func inFile(err error, file string, base int64) error {
	var c *CorruptionError
	if errors.As(err, &c) && c.File == "" {
		return &CorruptionError{file, base + c.Offset, c.Reason}
	}
	return err
}
