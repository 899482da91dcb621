// The text format, for people.

package render

import (
	"strconv"

	"github.com/pg-steno/pg_steno/internal/format"
	"github.com/pg-steno/pg_steno/internal/trail"
)

// Colors of the text format, as escape sequences for terminals.
const (
	dim        = "\x1b[2m"
	bold       = "\x1b[1m"
	red        = "\x1b[31m"
	green      = "\x1b[32m"
	yellow     = "\x1b[33m"
	cyan       = "\x1b[36m"
	resetStyle = "\x1b[0m"
)

// textFormat makes one line for each record, for people. Clients choose much of a line: names of users,
// databases and applications, messages, texts. None of these can imitate another part of the line: names and
// values are quoted unless they are one plain word (appendName, appendValue), and " | ", which separates the
// parts after the prefix, never occurs in a message or a text (appendBetweenBars).
type textFormat struct {
	clock    clock
	color    bool
	sessions cache // the user and the session, up to the sequence number
	texts    cache
	scratch  []byte
}

func (f *textFormat) Start(*trail.BlockRef) {
	f.sessions.reset()
	f.texts.reset()
}

// paint appends text in a colour.
func (f *textFormat) paint(dst []byte, color, text string) []byte {
	if !f.color {
		return append(dst, text...)
	}
	return append(append(append(dst, color...), text...), resetStyle...)
}

func (f *textFormat) style(dst []byte, color string) []byte {
	if f.color {
		dst = append(dst, color...)
	}
	return dst
}

func (f *textFormat) Append(dst []byte, r *format.Record) []byte {
	dst = f.style(dst, dim)
	dst = f.clock.appendZoned(dst, r.Time, ' ')
	dst = f.style(dst, resetStyle)
	dst = append(dst, ' ')
	dst = f.appendWho(dst, r)
	dst = append(dst, ' ')
	dst = f.appendOutcome(dst, r)
	if r.Depth > 0 {
		dst = append(append(dst, " depth "...), strconv.FormatUint(r.Depth, 10)...)
	}
	if r.Has(format.FieldDuration) {
		dst = appendDuration(append(dst, ' '), r.Duration)
	}
	if r.Has(format.FieldRows) {
		dst = strconv.AppendUint(append(dst, ' '), r.Rows, 10)
		dst = append(dst, " row"...)
		if r.Rows != 1 {
			dst = append(dst, 's')
		}
	}
	if r.XID != 0 {
		dst = strconv.AppendUint(append(dst, " xid "...), r.XID, 10)
	}
	if r.Reasons() != format.AuditedSession {
		dst = f.reasons(dst, r)
	}
	if len(r.Message) > 0 || len(r.SQLState) > 0 {
		dst = f.style(append(dst, ' '), red)
		dst = appendSafe(dst, r.SQLState)
		if len(r.Message) > 0 && len(r.SQLState) > 0 {
			dst = append(dst, ' ')
		}
		dst = appendBetweenBars(dst, r.Message)
		dst = f.style(dst, resetStyle)
	}
	if r.Text != nil {
		dst = append(dst, " | "...)
		if r.TextIndex < 0 {
			dst = appendBetweenBars(dst, r.Text)
		} else {
			text := f.texts.get(r.TextIndex)
			if len(text) == 0 {
				text = f.texts.put(r.TextIndex, func(dst []byte) []byte { return appendBetweenBars(dst, r.Text) })
			}
			dst = append(dst, text...)
		}
		if r.Has(format.FieldCut) {
			dst = f.style(append(dst, ' '), yellow)
			dst = append(dst, "| cut from "...)
			dst = append(strconv.AppendUint(dst, r.TextBytes, 10), " bytes"...)
			dst = f.style(dst, resetStyle)
		}
	}
	dst = f.params(dst, r)
	dst = f.objects(dst, r)
	return append(f.pairs(dst, r), '\n')
}

// pairs appends names and values. If text that clients have chosen precedes them, a bar, which clients cannot
// imitate, separates them from it.
func (f *textFormat) pairs(dst []byte, r *format.Record) []byte {
	sep := " "
	if r.Text != nil || len(r.Message) > 0 || len(r.SQLState) > 0 ||
		r.Shape != nil && len(r.Shape.Params)+len(r.Shape.Objects) > 0 {
		sep = " | "
	}
	pair := func(name, value []byte) {
		dst = append(appendValue(append(dst, sep...), name), '=')
		dst = appendValue(dst, value)
		sep = " "
	}
	if name := r.Prepared(); len(name) > 0 {
		pair([]byte("prepared"), name)
	}
	if name := r.Portal(); len(name) > 0 {
		pair([]byte("portal"), name)
	}
	for name, value := range r.ExtraPairs {
		pair([]byte(name), []byte(value))
	}
	return dst
}

// appendWho appends user@database, the roles that matter, and the session.
func (f *textFormat) appendWho(dst []byte, r *format.Record) []byte {
	made := f.sessions.get(r.SessionIndex)
	if len(made) == 0 {
		made = f.sessions.put(r.SessionIndex, func(dst []byte) []byte { return f.session(dst, r.Session) })
	}
	dst = append(dst, made...)
	if r.Seq != 0 {
		dst = format.AppendUint(append(dst, ' '), r.Seq)
	}
	dst = append(dst, ']')
	return f.style(dst, resetStyle)
}

// session appends the part of appendWho that depends only on the session.
func (f *textFormat) session(dst []byte, s *format.Session) []byte {
	dst = f.style(dst, cyan)
	if user := s.Fact(format.KeyUser); len(user) > 0 {
		dst = appendName(dst, user)
	} else if kind := s.Fact(format.KeyBackendType); len(kind) > 0 {
		dst = appendSafe(dst, kind)
	} else {
		dst = append(dst, '-')
	}
	if db := s.Fact(format.KeyDatabase); len(db) > 0 {
		dst = appendName(append(dst, '@'), db)
	}
	dst = f.style(dst, resetStyle)
	if role := s.Fact(format.KeyRole); len(role) > 0 {
		dst = appendName(append(dst, " role="...), role)
	}
	if user := s.Fact(format.KeyAppUser); len(user) > 0 {
		dst = appendValue(append(dst, " app_user="...), user)
	}
	if context := s.Fact(format.KeyAppContext); len(context) > 0 {
		dst = appendQuoted(append(dst, " app_context="...), context)
	}
	dst = f.style(append(dst, ' '), dim)
	dst = s.ID().Append(append(dst, '['))
	if leader := s.Fact(format.KeyLeader); len(leader) > 0 {
		dst = appendSafe(append(dst, " of "...), leader)
	}
	return dst
}

// appendOutcome appends the outcome, then class and command, or the kind.
func (f *textFormat) appendOutcome(dst []byte, r *format.Record) []byte {
	switch {
	case r.RolledBack() && !r.Failed(), r.Undone():
		dst = f.paint(dst, yellow, "rolled back")
	case r.Outcome == format.OutcomeError || r.Kind == format.KindAuthFailed:
		dst = f.paint(dst, red, "ERROR")
	case r.Outcome == format.OutcomeInterrupted:
		dst = f.paint(dst, red, "INTERRUPTED")
	case r.Kind == format.KindGap:
		dst = f.paint(dst, red, "LOST")
	case r.Outcome == format.OutcomeRunning || r.Kind == format.KindStart:
		dst = f.paint(dst, yellow, "running")
	case r.Outcome == format.OutcomeOk:
		dst = f.paint(dst, green, "ok")
	default:
		dst = append(dst, r.Outcome.String()...)
	}
	dst = append(dst, ' ')
	statement := r.Kind == format.KindStatement || r.Kind == format.KindStart
	if !statement {
		dst = f.paint(dst, bold, r.Kind.String())
		if isConnection(r.Kind) {
			if client := r.Session.Fact(format.KeyClient); len(client) > 0 {
				dst = appendWord(append(dst, " from "...), client)
			}
			if method := r.Session.Fact(format.KeyAuthMethod); len(method) > 0 {
				dst = appendSafe(append(dst, " by "...), method)
			}
			if identity := r.Session.Fact(format.KeyIdentity); len(identity) > 0 && r.Kind != format.KindDisconnect {
				dst = appendValue(append(dst, " identity="...), identity)
			}
			if name := r.Session.Fact(format.KeyApplication); len(name) > 0 && r.Kind != format.KindDisconnect {
				dst = appendValue(append(dst, " application="...), name)
			}
		}
	}
	if s := r.Shape; s != nil && (statement || len(s.Command) > 0) {
		if !statement {
			dst = append(dst, ' ')
		}
		if s.Class != 0 {
			dst = append(dst, s.Class.String()...)
			if len(s.Command) > 0 {
				dst = append(dst, '/')
			}
		}
		dst = f.style(dst, bold)
		dst = appendSafe(dst, s.Command)
		dst = f.style(dst, resetStyle)
	} else if statement {
		dst = append(dst, r.Kind.String()...)
	}
	return dst
}

// reasons appends why the record was written.
func (f *textFormat) reasons(dst []byte, r *format.Record) []byte {
	dst = f.style(dst, yellow)
	sep := " by "
	for name := range r.Reasons().Names {
		dst = append(append(dst, sep...), name...)
		sep = ","
	}
	return f.style(dst, resetStyle)
}

// objects appends actions and the objects that they changed: create table public.t.
func (f *textFormat) objects(dst []byte, r *format.Record) []byte {
	if r.Shape == nil {
		return dst
	}
	for i, o := range r.Shape.Objects {
		sep := ", "
		if i == 0 {
			sep = " | "
		}
		dst = append(append(append(dst, sep...), o.Action.String()...), ' ')
		dst = append(appendSafe(dst, o.Type), ' ')
		dst = appendBetweenBars(dst, escapeMixed(o.Name))
		if len(o.To) > 0 {
			dst = appendBetweenBars(append(dst, " to "...), escapeMixed(o.To))
		}
	}
	return dst
}

// params appends the parameters that the statement uses, as SQL would write them: $1=42,
// $2='text', $3=NULL.
func (f *textFormat) params(dst []byte, r *format.Record) []byte {
	n := 0
	sep := " | "
	r.Params(func(p format.ParamType, value []byte, null bool) bool {
		n++
		if p.IsUnused(null) {
			return true
		}
		dst = append(dst, sep...)
		sep = ", "
		dst = append(strconv.AppendInt(append(dst, '$'), int64(n), 10), '=')
		switch {
		case null:
			dst = append(dst, "NULL"...)
		case p.Repr >= format.ReprBool && p.Repr <= format.ReprOID || p.Repr == format.ReprNumeric ||
			p.Repr == format.ReprNone:
			dst = format.AppendParam(dst, p.Repr, value)
		default:
			f.scratch = format.AppendParam(f.scratch[:0], p.Repr, value)
			dst = appendQuoted(dst, f.scratch)
		}
		return true
	})
	return dst
}
