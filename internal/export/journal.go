// The journal of an export: its plan, and which steps are done.

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

// plan is what an export writes. It is made once, so that records that a server adds later, or the day on which
// an export is resumed, do not change it.
type plan struct {
	Request     Request         `json:"request"`
	Created     string          `json:"created"`
	Number      int             `json:"number"` // number of the export from its slot; 0: not from a slot
	Since       int64           `json:"since_us"`
	Until       int64           `json:"until_us"`
	Days        []int64         `json:"days"` // since 1970-01-01
	Streams     []Stream        `json:"streams"`
	SlotFrom    []slot.Position `json:"slot_from,omitempty"`
	SlotTo      []trail.Place   `json:"slot_to,omitempty"`
	ChainDamage []Problem       `json:"chain_damage,omitempty"`
	Gaps        Gaps            `json:"gaps"`
}

// entry is a line of the journal: first the plan, then one for each step that is done.
type entry struct {
	Plan     *plan     `json:"plan,omitempty"`
	File     *File     `json:"done,omitempty"`     // has its name, and is on disk
	Problems []Problem `json:"problems,omitempty"` // found while writing it
	Advanced bool      `json:"advanced,omitempty"` // the slot was advanced
	Moved    bool      `json:"moved,omitempty"`    // another process has moved the slot
}

// journal is the journal file of an unfinished export. The process that has locked it works on the export. An
// incomplete line was being written by a process that was killed, and does not count.
type journal struct {
	path  string
	file  *os.File
	lines []entry
}

// errBusy says that another process works on the export.
var errBusy = errors.New("another process is writing this export")

// openJournal opens and locks the journal, and creates it if necessary.
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
		// The process that had locked it may have completed the export and removed it.
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

// load reads the lines, and cuts off an incomplete one.
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

// add appends a line. When it returns, the line is on disk.
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

// currentPlan returns the plan; nil: there is none yet.
func (j *journal) currentPlan() *plan {
	if len(j.lines) == 0 {
		return nil
	}
	return j.lines[0].Plan
}

// remove removes the journal of an export that is complete or discarded.
func (j *journal) remove() error {
	err := os.Remove(j.path)
	j.close()
	return err
}

func (j *journal) close() { j.file.Close() }
