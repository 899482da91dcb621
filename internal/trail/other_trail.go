// Records about runs that had recorded in another trail.

package trail

import (
	"encoding/hex"
	"strconv"

	"github.com/pg-steno/pg_steno/internal/format"
)

// OtherTrail is the content of a server record with the event "other_trail": a run of the server did not stop,
// and its ring file was recovered into this trail. But that run had recorded in another trail, or this trail
// has lost its end. The record names either a stream of the other trail, or a session.
type OtherTrail struct {
	Time    int64
	Since   string   // when that run began
	Stream  uint32   // a stream of the other trail that had at least ...
	Block   uint64   // ... this block, which this trail does not have
	Chain   [32]byte // its hash; zeros: not known
	Session string   // ID of the session, as SessionID.String formats it
	Last    uint64   // number of the session's last record in the other trail; 0: the record names a stream
}

// ParseOtherTrail reads such a record; ok is false if it is none, or not complete.
func ParseOtherTrail(r *format.Record) (o OtherTrail, ok bool) {
	text, ok := eventText(r, "other_trail")
	if !ok {
		return o, false
	}
	o.Time, o.Since = r.Time, text("since")
	if o.Session = text("session"); o.Session != "" {
		var err error
		o.Last, err = strconv.ParseUint(text("last_seq"), 10, 63)
		return o, format.IsSessionID(o.Session) && err == nil && o.Last > 0
	}
	stream, err := strconv.ParseUint(text("stream"), 10, 32)
	block, err2 := strconv.ParseUint(text("block"), 10, 63)
	o.Stream, o.Block = uint32(stream), block
	if chain, err := hex.DecodeString(text("chain")); err == nil && len(chain) == len(o.Chain) {
		o.Chain = [32]byte(chain)
	}
	return o, err == nil && err2 == nil
}
