// Finds sessions in which a user of the question became another one: after SET SESSION AUTHORIZATION, records have
// another user.

package proof

import (
	"bytes"
	"cmp"
	"regexp"
	"slices"

	"github.com/pg-steno/pg_steno/internal/format"
	"github.com/pg-steno/pg_steno/internal/render"
)

// authorization is the name of the setting that does this, and word is contained in all texts that do.
const (
	authorization = "session_authorization"
	word          = "authorization"
)

// returns matches statements after which the user is again the one who logged in.
var returns = regexp.MustCompile(
	`(?i)^\s*(RESET\s+SESSION\s+AUTHORIZATION|SET\s+SESSION\s+AUTHORIZATION\s+DEFAULT)\s*;?\s*$`)

// asksFor reports whether the filter is by user, and matches that of a session.
func (a *evaluator) asksFor(s *format.Session) bool {
	return slices.Contains(a.question.Filter.Users, string(s.Fact(format.KeyUser)))
}

// maySwitchUser reports whether a statement of a matching user may have given its session another user.
func (a *evaluator) maySwitchUser(r *format.Record) bool {
	if len(a.question.Filter.Users) == 0 || r.Kind != format.KindStatement && r.Kind != format.KindStart ||
		r.Outcome == format.OutcomeError || r.Time >= a.until || !a.asksFor(r.Session) {
		return false
	}
	if text := bytes.ToLower(r.Text); bytes.Contains(text, []byte(word)) && bytes.Contains(text, []byte("session")) &&
		!returns.Match(text) {
		return true
	}
	return hasParam(r, authorization)
}

// selectSwitches selects the groups of an index that may have such statements.
func (a *evaluator) selectSwitches(c *format.Contents) format.Groups {
	g := c.Select(format.TermsUsers, func(v []byte) bool {
		return slices.Contains(a.question.Filter.Users, string(v))
	})
	mentions := c.SelectText(word)
	mentions.Or(c.SelectValue(authorization))
	g.And(mentions)
	return g
}

// switched is what is known about a session with several users.
type switched struct {
	matched, hadOthers bool // it had a matching user, and another one
	user               string
	at                 int64 // the first statement that may have changed the user; 0: none
}

// note adds a record of the session.
func (s *switched) note(a *evaluator, r *format.Record) {
	if len(a.question.Filter.Users) == 0 || r.Time >= a.until || len(r.Session.Fact(format.KeyUser)) == 0 {
		return
	}
	if !a.asksFor(r.Session) {
		s.hadOthers = true
		return
	}
	s.matched, s.user = true, string(r.Session.Fact(format.KeyUser))
	if a.maySwitchUser(r) && (s.at == 0 || r.Time < s.at) {
		s.at = r.Time
	}
}

// listSwitched lists the sessions of the range that had, or may have had, both a matching user and another one.
func (c *conditions) listSwitched(except func(text string, args ...any)) {
	var ids []format.SessionID
	for id, s := range c.sessions {
		if s.switched.matched && s.ended >= c.eval.since && (s.switched.hadOthers || s.switched.at != 0) {
			ids = append(ids, id)
		}
	}
	slices.SortFunc(ids, func(a, b format.SessionID) int {
		return cmp.Or(cmp.Compare(c.sessions[a].switched.at, c.sessions[b].switched.at), a.Compare(b))
	})
	const listed = 20
	for i, id := range ids {
		s := &c.sessions[id].switched
		switch {
		case i == listed:
			except("%s more of these users had, or may have had, another user", render.Plural(len(ids)-listed, "session"))
			return
		case s.hadOthers:
			except("session %s of user %q had another user, too: what it did as that one is not what the filter "+
				"asks for; ask for the session", id, s.user)
		default:
			except("session %s of user %q may have got another user at %s: what it did as that one is not what the "+
				"filter asks for; ask for the session", id, s.user, render.Time(s.at))
		}
	}
}
