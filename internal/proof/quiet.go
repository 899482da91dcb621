// Failures that leave no record: pg_steno sees those of statements that were not planned yet, and of logins, when the
// server reports them to its log, which log_min_messages can prevent.

package proof

import (
	"bytes"
	"cmp"
	"regexp"
	"slices"
	"strings"

	"github.com/pg-steno/pg_steno/internal/format"
	"github.com/pg-steno/pg_steno/internal/render"
)

// MinMessages is the setting.
const MinMessages = "log_min_messages"

// HidesFailures reports whether a value of log_min_messages hides errors of processes that run statements. From
// PostgreSQL 19 on, it is a list of levels, also by type of process.
func HidesFailures(value string) bool {
	level := "warning"
	of := map[string]string{}
	for _, one := range strings.Split(strings.ToLower(value), ",") {
		one = strings.TrimSpace(one)
		if process, l, found := strings.Cut(one, ":"); found {
			of[strings.TrimSpace(process)] = strings.TrimSpace(l)
		} else if one != "" {
			level = one
		}
	}
	return slices.ContainsFunc([]string{"backend", "walsender", "bgworker"}, func(process string) bool {
		l := cmp.Or(of[process], level)
		// for the server's log, level LOG is between ERROR and FATAL
		return l == "log" || !slices.Contains(loggingLevels, l)
	})
}

// loggingLevels are the levels with which errors are logged.
var loggingLevels = []string{"debug", "debug5", "debug4", "debug3", "debug2", "debug1", "info", "notice",
	"warning", "error"}

// harmlessMention matches statements that mention the setting, but hide nothing.
var harmlessMention = regexp.MustCompile(
	`(?i)^\s*(SHOW\s+\w+|RESET\s+\w+` +
		`|SET\s+(SESSION\s+|LOCAL\s+)?\w+\s*(=|\bTO\b)\s*` +
		`'?(debug[1-5]?|info|notice|warning|error|default)'?)\s*;?\s*$`)

// mentionsLevel reports whether a text has the name of the setting, in upper or lower case.
func mentionsLevel(text []byte) bool {
	const begin, rest = "log", "_min_messages"
	for from := 0; ; {
		at := bytes.IndexByte(text[from:], '_')
		if at < 0 {
			return false
		}
		at += from
		if at >= len(begin) && len(text)-at >= len(rest) && bytes.EqualFold(text[at-len(begin):at], []byte(begin)) &&
			bytes.EqualFold(text[at:at+len(rest)], []byte(rest)) {
			return true
		}
		from = at + 1
	}
}

// maySetMinMessages reports whether a statement may have set log_min_messages, for its session or for later ones.
// Values of the server's configuration are in the records of starts and changes.
func maySetMinMessages(r *format.Record) bool {
	if r.Kind != format.KindStatement && r.Kind != format.KindStart || r.Outcome == format.OutcomeError {
		return false
	}
	if mentionsLevel(r.Text) {
		return !harmlessMention.Match(r.Text) && (r.Shape == nil || string(r.Shape.Command) != alterSystem)
	}
	return hasParam(r, MinMessages) && namesByValue(r.Text)
}

// byValue are the function and the view by which a statement can set a setting whose name is a parameter.
var byValue = []string{"set_config", "pg_settings"}

func namesByValue(text []byte) bool {
	lower := bytes.ToLower(text)
	return slices.ContainsFunc(byValue, func(way string) bool { return bytes.Contains(lower, []byte(way)) })
}

// maySetMinMessagesLater reports whether such a statement affects later sessions, of any user.
func maySetMinMessagesLater(r *format.Record) bool {
	return r.Shape != nil && (string(r.Shape.Command) == "ALTER ROLE" || string(r.Shape.Command) == "ALTER DATABASE")
}

// hasParam reports whether a statement has a parameter with a value, in upper or lower case.
func hasParam(r *format.Record, wanted string) (found bool) {
	if r.Shape == nil || len(r.Shape.Params) == 0 || !r.HasParams() {
		return false
	}
	r.Params(func(p format.ParamType, value []byte, null bool) bool {
		found = !null && p.Repr != format.ReprNone &&
			bytes.EqualFold(format.AppendParam(nil, p.Repr, value), []byte(wanted))
		return !found
	})
	return found
}

// selectMinMessages selects the groups of an index that may have such statements.
func selectMinMessages(c *format.Contents) format.Groups {
	g := c.SelectText(byValue[0])
	g.Or(c.SelectText(byValue[1]))
	g.And(c.SelectValue(MinMessages))
	g.Or(c.SelectText(MinMessages))
	return g
}

// recordsLevels reports whether the record of a start states that each session whose own log_min_messages hides
// failures has a record of that. Otherwise, as with earlier versions, texts must be searched for statements that may
// have set it.
func recordsLevels(start *format.Record) bool {
	v, _ := start.ExtraValue(MinMessages + "_of_sessions")
	return string(v) == "recorded"
}

// searchesTexts reports whether texts must be searched for statements that may have set log_min_messages, because a
// run that began in a range of times does not record this setting of sessions. The range begins with a start.
func searchesTexts(runs []run, from, until int64) bool {
	return slices.ContainsFunc(runs, func(one run) bool { return from <= one.time && one.time < until && !one.levels })
}

// searchesTexts is the same for the range of the question: for each server, from the last start before the range on.
func (c *conditions) searchesTexts() bool {
	return !c.hasBase() || slices.ContainsFunc(c.lives, func(l *life) bool {
		from := int64(format.MinTime)
		if base := l.base(); base != nil {
			from = base.time
		}
		return searchesTexts(l.runs, from, c.eval.until)
	})
}

// textsSearched reports whether texts must be searched in the run of the server to which a time of a session belongs.
func (c *conditions) textsSearched(s *session, at int64) bool {
	return slices.ContainsFunc(c.livesOf(s.stream), func(l *life) bool {
		levels := false
		for i := range l.runs {
			if l.runs[i].time <= at {
				levels = l.runs[i].levels
			}
		}
		return !levels
	})
}

// listMinMessages lists the sessions that may have hidden their failures in this way.
func (c *conditions) listMinMessages(except func(text string, args ...any)) {
	type one struct {
		id   format.SessionID
		at   int64
		what string
	}
	var all []one
	for id, s := range c.sessions {
		if s.matched && s.minMessagesSet != 0 && s.ended >= c.eval.since && c.textsSearched(s, s.minMessagesSet) {
			all = append(all, one{id, s.minMessagesSet, "in it"})
		}
		if s.minMessagesSetLater != 0 && c.textsSearched(s, s.minMessagesSetLater) {
			all = append(all, one{id, s.minMessagesSetLater, "in later sessions"})
		}
	}
	slices.SortFunc(all, func(a, b one) int { return cmp.Or(cmp.Compare(a.at, b.at), a.id.Compare(b.id)) })
	const listed = 20
	for i, o := range all {
		if i == listed {
			except("%s more may have set log_min_messages", render.Plural(len(all)-listed, "session"))
			return
		}
		except("session %s of user %q may have set log_min_messages at %s: what failed %s before it was planned may "+
			"have no record", o.id, c.sessions[o.id].user, render.Time(o.at), o.what)
	}
}
