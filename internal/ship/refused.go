// The file of records that a sink has refused for good, one JSON object a line.

package ship

import (
	"encoding/json"
	"os"
	"path/filepath"
	"time"
)

// refusedLine is a line of the file.
type refusedLine struct {
	Refused string `json:"refused"` // when
	Sink    string `json:"sink"`
	Reason  string `json:"reason"`
	System  uint64 `json:"system_id"`
	Stream  uint32 `json:"stream"`
	Segment uint64 `json:"segment"`
	Block   uint64 `json:"block"`
	Session string `json:"session,omitempty"`
	Seq     uint64 `json:"seq,omitempty"`
	Event   string `json:"event"`
}

// refusedPath is the path of a sink's file.
func refusedPath(dir, sink string) string { return filepath.Join(dir, "ship-"+sink+".refused.jsonl") }

// keepRefused appends events to the file of a sink. They are on disk when it returns.
func keepRefused(dir, sink string, all []Refused, now time.Time) error {
	f, err := os.OpenFile(refusedPath(dir, sink), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	var text []byte
	for _, r := range all {
		e := r.Event
		line, err := json.Marshal(refusedLine{now.UTC().Format(time.RFC3339), sink, r.Reason, e.System, e.Place.Stream,
			e.Place.Segment, e.Place.Block, e.Session, e.Seq, string(e.Line)})
		if err != nil {
			return err
		}
		text = append(append(text, line...), '\n')
	}
	if _, err = f.Write(text); err == nil {
		return f.Sync()
	}
	_ = f.Truncate(info.Size()) // a full disk must not leave half a line
	return err
}
