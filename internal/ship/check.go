// Trying a sink before it is relied on.

package ship

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/pg-steno/pg_steno/internal/query"
	"github.com/pg-steno/pg_steno/internal/slot"
)

// checkTime bounds how long trying a sink may take.
const checkTime = 30 * time.Second

// CheckSink tries what a sink needs: the trail, its slot, the directory for states, and the destination.
func CheckSink(ctx context.Context, s *SinkConfig, c *Config) (all []Finding) {
	ctx, cancel := context.WithTimeout(ctx, checkTime)
	defer cancel()
	keys := (&query.KeyOptions{Files: c.EncryptionKeyFile, Commands: c.EncryptionKeyCommand}).Keys()
	_, err := openTrail(c.Trail, keys)
	all = append(all, Finding{What: "read the trail " + c.Trail, Err: err})
	if err == nil {
		all = append(all, checkSlot(s, c.Trail))
	}
	all = append(all, Finding{What: "write to the state directory " + c.StateDirectory,
		Err: checkDirectory(c.StateDirectory)})
	sink, err := s.Kind.Open(s)
	if err != nil {
		return append(all, Finding{What: "open the sink", Err: err})
	}
	defer sink.Close()
	return append(all, sink.Check(ctx)...)
}

func checkSlot(s *SinkConfig, trail string) Finding {
	f := Finding{What: fmt.Sprintf("slot %q", s.Slot)}
	_, err := slot.OpenFeed(trail, s.Slot)
	if _, none := err.(*slot.NotFoundError); none {
		f.Note = fmt.Sprintf("it does not exist yet, and will begin at the %s of the trail", s.From)
		f.Err = slot.CanChange(trail)
		return f
	}
	if f.Err = err; err == nil {
		f.Err = slot.CanChange(trail)
	}
	return f
}

// checkDirectory creates a directory, if it does not exist, and a file in it, which it removes.
func checkDirectory(path string) error {
	if err := os.MkdirAll(path, 0o700); err != nil {
		return err
	}
	f, err := os.CreateTemp(path, ".check-*")
	if err != nil {
		return err
	}
	_, err = f.Write(make([]byte, 4096)) // an empty file needs no space
	err = errors.Join(err, f.Sync(), f.Close())
	return errors.Join(err, os.Remove(filepath.Clean(f.Name())))
}
