// Runs of the server whose ring file was recovered into another trail than the one in which they had recorded.

package verify

import (
	"slices"

	"github.com/pg-steno/pg_steno/internal/format"
	"github.com/pg-steno/pg_steno/internal/render"
	"github.com/pg-steno/pg_steno/internal/trail"
)

// otherTrails is what records of the event "other_trail" say: the first records of some sessions are in another
// trail. That they are missing here is no sign of a change; proof.Recorded reports what the trail lacks. If the
// other trail is verified at the same time, it must have them.
type otherTrails struct {
	streams  []trail.OtherTrail
	sessions map[string]trail.OtherTrail // by session ID
	read     map[string]bool             // runs, by Since, whose other trail is verified, too
}

// lastElsewhere returns the number of a session's last record in another trail; 0: none are there.
func (e *otherTrails) lastElsewhere(id format.SessionID) uint64 {
	if len(e.sessions) == 0 {
		return 0
	}
	o := e.sessions[id.String()]
	if e.read[o.Since] {
		return 0
	}
	return o.Last
}

func (e *otherTrails) note(o trail.OtherTrail) {
	if o.Last == 0 {
		e.streams = append(e.streams, o)
		return
	}
	if e.sessions == nil {
		e.sessions = map[string]trail.OtherTrail{}
	}
	if e.sessions[o.Session].Last < o.Last {
		e.sessions[o.Session] = o
	}
}

// settleElsewhere finds the runs whose other trail is verified, too.
func (v *verifier) settleElsewhere() {
	v.elsewhere.read = map[string]bool{}
	for _, o := range v.elsewhere.streams {
		if o.Chain == [32]byte{} || v.elsewhere.read[o.Since] {
			continue
		}
		v.elsewhere.read[o.Since] = slices.ContainsFunc(v.trail.Streams, func(s *trail.Stream) bool {
			if s.Number != o.Stream {
				return false
			}
			there, right := v.hasBlock(s, o.Block, o.Chain)
			return there && right
		})
	}
}

func (e *otherTrails) report(v *verifier) {
	said := map[trail.OtherTrail]bool{}
	for _, o := range e.streams {
		o.Time = 0 // an interrupted recovery has recorded it twice
		if said[o] || e.read[o.Since] {
			continue
		}
		said[o] = true
		v.warn("", nil,
			"the run of the server that began at %s had recorded in another trail, whose stream %d had at least "+
				"%s; what that run left in its ring file was recovered into this one",
			o.Since, o.Stream, render.Plural(o.Block, "block"))
	}
}
