// The plan of an export and what of it is done, on disk.

package export

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/pg-steno/pg_steno/internal/private"
	"github.com/pg-steno/pg_steno/internal/slot"
	"github.com/pg-steno/pg_steno/internal/trail"
)

// plan is what an export is going to write. It is made once, so that what a server writes
// meanwhile, or another day, changes nothing in an export that is resumed.
type plan struct {
	Request     Request         `json:"request"`
	Created     string          `json:"created"`
	Number      int             `json:"number"` // of the export from a slot; 0: not from one
	Since       int64           `json:"since_us"`
	Until       int64           `json:"until_us"`
	Days        []int64         `json:"days"` // since 1970-01-01
	Streams     []Stream        `json:"streams"`
	SlotFrom    []slot.Position `json:"slot_from,omitempty"`
	SlotTo      []trail.Place   `json:"slot_to,omitempty"`
	ChainDamage []Problem       `json:"chain_damage,omitempty"`
	Gaps        Gaps            `json:"gaps"`
}

// entry is a line of the journal: the plan, which is the first one, and what was done since.
type entry struct {
	Plan     *plan     `json:"plan,omitempty"`
	File     *File     `json:"done,omitempty"`     // under its name, on disk
	Problems []Problem `json:"problems,omitempty"` // found with it
	Advanced bool      `json:"advanced,omitempty"` // the slot
	Moved    bool      `json:"moved,omitempty"`    // the slot, by somebody else
}

// journal is the file of an unfinished export. Who has it locked works on the export. A line
// that is not complete is of a process that was killed, and was never written.
type journal struct {
	path  string
	file  *os.File
	lines []entry
}

// errBusy is what another process makes of an export.
var errBusy = errors.New("another process is writing this export")

// openJournal opens the journal, or makes an empty one, and locks it.
func openJournal(path string) (*journal, error) {
	for {
		f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
		if err != nil {
			return nil, err
		}
		if locked, err := private.TryLock(f); err != nil || !locked {
			f.Close()
			if err == nil {
				err = errBusy
			}
			return nil, err
		}
		// Whoever had it locked may have removed it, and so ended.
		mine, err := f.Stat()
		if there, err2 := os.Lstat(path); err != nil || err2 != nil || !os.SameFile(mine, there) {
			f.Close()
			if err != nil || err2 != nil && !errors.Is(err2, os.ErrNotExist) {
				return nil, errors.Join(err, err2)
			}
			continue
		}
		j := &journal{path: path, file: f}
		if err := j.load(); err != nil {
			j.close()
			return nil, err
		}
		return j, nil
	}
}

// load reads the lines, and cuts off what was not written completely.
func (j *journal) load() error {
	text, err := io.ReadAll(j.file)
	if err != nil {
		return err
	}
	whole := bytes.LastIndexByte(text, '\n') + 1
	for line := range bytes.Lines(text[:whole]) {
		var e entry
		if err := json.Unmarshal(line, &e); err != nil {
			return fmt.Errorf("%s is not the journal of an export", j.path)
		}
		j.lines = append(j.lines, e)
	}
	if len(j.lines) > 0 && j.lines[0].Plan == nil {
		return fmt.Errorf("%s is not the journal of an export", j.path)
	}
	if err := j.file.Truncate(int64(whole)); err != nil {
		return err
	}
	_, err = j.file.Seek(int64(whole), io.SeekStart)
	return err
}

// add adds a line; it is on disk when this returns.
func (j *journal) add(e entry) error {
	line, err := json.Marshal(e)
	if err != nil {
		return err
	}
	if _, err := j.file.Write(append(line, '\n')); err != nil {
		return err
	}
	if err := j.file.Sync(); err != nil {
		return err
	}
	j.lines = append(j.lines, e)
	return nil
}

// currentPlan is that of the journal; nil if it has none yet.
func (j *journal) currentPlan() *plan {
	if len(j.lines) == 0 {
		return nil
	}
	return j.lines[0].Plan
}

// remove removes the journal, whose export is complete or given up.
func (j *journal) remove() error {
	err := os.Remove(j.path)
	j.close()
	return err
}

func (j *journal) close() { j.file.Close() }
