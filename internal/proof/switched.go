// Sessions of users that a question asks for, in which they became somebody else: SET SESSION AUTHORIZATION gives the
// records that follow another user.

package proof

import (
	"bytes"
	"cmp"
	"regexp"
	"slices"

	"github.com/pg-steno/pg_steno/internal/format"
	"github.com/pg-steno/pg_steno/internal/render"
)

// setting is the name of the setting that does this, and word what all texts contain that do.
const (
	authorization = "session_authorization"
	word          = "authorization"
)

// returns is a statement after which the user is the one who logged in.
var returns = regexp.MustCompile(
	`(?i)^\s*(RESET\s+SESSION\s+AUTHORIZATION|SET\s+SESSION\s+AUTHORIZATION\s+DEFAULT)\s*;?\s*$`)

// asksFor says whether the filter asks for users, and for the one that a session has.
func (a *evaluator) asksFor(s *format.Session) bool {
	return slices.Contains(a.question.Filter.Users, string(s.Fact(format.KeyUser)))
}

// maySwitchUser says whether a statement of a user who is asked for may have made its session one of somebody else.
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

// switched is what is known of a session that had different users.
type switched struct {
	matched, hadOthers bool // it had one that is asked for, and another one
	user               string
	at                 int64 // the first statement that may have changed the user; 0: none
}

// note takes a record of the session.
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

// listSwitched lists the sessions of the range that had, or may have had, another user than the ones that are asked
// for.
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
			except("%s more of these users had, or may have had, another user", count(len(ids)-listed, "session"))
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
