// Runs whose ring file was recovered into another trail than the one that they had recorded in.

package verify

import (
	"github.com/pg-steno/pg_steno/internal/trail"
)

// elsewhere is what records of the event "other_trail" say: first records of sessions are in another trail. That they
// are not in this one is no sign that it was altered; the second verdict says what it lacks.
type elsewhere struct {
	streams  []trail.OtherTrail
	sessions map[string]uint64 // by the session's id: number of its last record that is there
}

// last is the number of the last record of a session that is in another trail, 0 for most.
func (e *elsewhere) last(id trail.SessionID) uint64 {
	if len(e.sessions) == 0 {
		return 0
	}
	return e.sessions[id.String()]
}

func (e *elsewhere) note(o trail.OtherTrail) {
	if o.Last == 0 {
		e.streams = append(e.streams, o)
		return
	}
	if e.sessions == nil {
		e.sessions = map[string]uint64{}
	}
	e.sessions[o.Session] = max(e.sessions[o.Session], o.Last)
}

func (e *elsewhere) tell(v *verifier) {
	said := map[trail.OtherTrail]bool{}
	for _, o := range e.streams {
		o.Time = 0 // a recovery that was interrupted has recorded it twice
		if said[o] {
			continue
		}
		said[o] = true
		v.warning("", nil, "the run of the server that began at %s had recorded in another trail, whose stream %d had at least %s; what that run left in its ring file was recovered into this one",
			o.Since, o.Stream, plural(int(o.Block), "block"))
	}
}
