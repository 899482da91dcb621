// The command that shows all records behind a figure.

package report

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/pg-steno/pg_steno/internal/query"
	"github.com/pg-steno/pg_steno/internal/render"
	"github.com/pg-steno/pg_steno/internal/trail"
)

// command returns the command line that shows the records of the period that match a filter, in
// addition to what the whole report is asked for; empty if no command shows exactly these.
func (m *maker) command(figure query.FilterOptions) string {
	o := m.o.Asked
	o.Since, o.Until = figure.Since, figure.Until
	if o.Since == "" && m.since != trail.MinTime {
		o.Since = exactTime(m.since)
	}
	if o.Until == "" && m.until != trail.MaxTime {
		o.Until = exactTime(m.until)
	}
	// What a figure names was found in records that match the report's own filter. A name that is
	// in that list narrows it; one that only belongs to a name or network in it may not.
	narrow := func(asked *[]string, named []string, exact bool) bool {
		if len(named) == 0 {
			return true
		}
		ok := len(*asked) == 0 || exact || len(*asked) == 1 && len(named) == 1 && (*asked)[0] == named[0]
		*asked = named
		return ok
	}
	ok := narrow(&o.Users, figure.Users, true) && narrow(&o.Databases, figure.Databases, true) && narrow(&o.Applications, figure.Applications, true) &&
		narrow(&o.Sessions, figure.Sessions, len(o.Sessions) == 0) && narrow(&o.Classes, figure.Classes, true) && narrow(&o.Kinds, figure.Kinds, true) &&
		narrow(&o.SQLStates, figure.SQLStates, true) && narrow(&o.Fingerprints, figure.Fingerprints, true) && narrow(&o.Commands, figure.Commands, false) &&
		narrow(&o.Clients, figure.Clients, false) && narrow(&o.Objects, figure.Objects, false)
	o.Failed, o.TopLevel, o.OffHours = o.Failed || figure.Failed, o.TopLevel || figure.TopLevel, o.OffHours || figure.OffHours
	not := query.FilterOptions{}
	if o.Not != nil {
		not = *o.Not
	}
	if n := figure.Not; n != nil {
		for _, l := range []struct{ all, more *[]string }{
			{&not.Classes, &n.Classes}, {&not.Commands, &n.Commands}, {&not.SQLStates, &n.SQLStates}, {&not.Clients, &n.Clients},
			{&not.Users, &n.Users}, {&not.Databases, &n.Databases}, {&not.Applications, &n.Applications},
		} {
			*l.all = slices.Compact(slices.Sorted(slices.Values(slices.Concat(*l.all, *l.more))))
		}
	}
	o.Not = &not
	if _, err := o.Filter(time.Time{}); err != nil || !ok {
		return ""
	}
	words := append([]string{"steno", "cat"}, flagsOf(&o, "--")...)
	words = append(words, flagsOf(&not, "--not-")...)
	if m.o.ZoneName != "" && m.o.ZoneName != "UTC" {
		words = append(words, "--time-zone", ShellWord(m.o.ZoneName))
	}
	words = append(words, m.o.KeyFlags...)
	for _, t := range m.o.Trails {
		if strings.HasPrefix(t, "-") {
			t = "./" + t
		}
		words = append(words, ShellWord(t))
	}
	return strings.Join(words, " ")
}

// exactTime is a moment of the trail to the microsecond.
func exactTime(usec int64) string {
	return query.Moment(usec).Format("2006-01-02T15:04:05.999999Z")
}

// flagsOf are the flags of a filter.
func flagsOf(o *query.FilterOptions, prefix string) (words []string) {
	add := func(name, value string) { words = append(words, prefix+name+" "+ShellWord(value)) }
	if o.Since != "" {
		add("since", o.Since)
	}
	if o.Until != "" {
		add("until", o.Until)
	}
	for _, l := range []struct {
		name   string
		values []string
		whole  bool
	}{
		{"kind", o.Kinds, false}, {"class", o.Classes, false}, {"command", o.Commands, false}, {"user", o.Users, false}, {"role", o.Roles, false},
		{"app-user", o.AppUsers, false}, {"identity", o.Identities, true}, {"app-context", o.AppContexts, true}, {"database", o.Databases, false}, {"application", o.Applications, false}, {"client", o.Clients, false},
		{"session", o.Sessions, false}, {"object", o.Objects, true}, {"audited", o.Audited, false}, {"grep", o.Grep, true}, {"xid", o.XIDs, false},
		{"sqlstate", o.SQLStates, false}, {"fingerprint", o.Fingerprints, false},
	} {
		if len(l.values) == 0 {
			continue
		}
		if l.whole {
			for _, v := range l.values {
				add(l.name, v)
			}
			continue
		}
		quoted := make([]string, len(l.values))
		for i, v := range l.values {
			quoted[i] = query.ListValue(v)
		}
		add(l.name, strings.Join(quoted, ","))
	}
	if o.MinDuration != "" {
		add("min-duration", o.MinDuration)
	}
	for _, b := range []struct {
		name string
		set  bool
	}{{"failed", o.Failed}, {"top-level", o.TopLevel}, {"off-hours", o.OffHours}, {"ignore-case", o.IgnoreCase}} {
		if b.set {
			words = append(words, prefix+b.name)
		}
	}
	return words
}

var plainWord = regexp.MustCompile(`^[A-Za-z0-9_@%+=:,./-]+$`)

// ShellWord is a word of a command line as shells read it. What a terminal, or a reader, could take
// for something else is written with escapes, which bash, zsh and ksh know.
func ShellWord(s string) string {
	if plainWord.MatchString(s) {
		return s
	}
	if render.Safe(s) == s && utf8.ValidString(s) {
		return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
	}
	var b strings.Builder
	b.WriteString("$'")
	for i := range len(s) {
		switch c := s[i]; {
		case c == '\'' || c == '\\':
			b.WriteByte('\\')
			b.WriteByte(c)
		case c < 0x20 || c >= 0x7f:
			fmt.Fprintf(&b, `\x%02x`, c)
		default:
			b.WriteByte(c)
		}
	}
	b.WriteByte('\'')
	return b.String()
}

// ---- the filters of single figures ----

var stateFormat = regexp.MustCompile(`^[0-9A-Z]{5}$`)

// none is a filter that no command line can have.
var none = query.FilterOptions{Sessions: []string{""}}

// named is a filter by one name; there is none for an empty one.
func named(name string, set func(*query.FilterOptions, []string)) query.FilterOptions {
	if name == "" || strings.ContainsAny(name, "\r\x00") {
		return none
	}
	var o query.FilterOptions
	set(&o, []string{name})
	return o
}

func setUsers(o *query.FilterOptions, v []string)        { o.Users = v }
func setDatabases(o *query.FilterOptions, v []string)    { o.Databases = v }
func setApplications(o *query.FilterOptions, v []string) { o.Applications = v }

func byUser(name string) query.FilterOptions { return named(name, setUsers) }

// byActor is the filter of a user, database or application; of records without one, that there is
// none of the others.
func byActor(name string, t *tally[string, actor, *actor], set func(*query.FilterOptions, []string)) query.FilterOptions {
	if name != "" || t.pruned || len(t.of) > 50 {
		return named(name, set)
	}
	var others []string
	for n := range t.of {
		if named(n, set).Sessions != nil && n != "" {
			return none
		}
		if n != "" {
			others = append(others, n)
		}
	}
	o := query.FilterOptions{Not: &query.FilterOptions{}}
	set(o.Not, others)
	return o
}

// with adds kinds and whether something failed to a filter.
func with(o query.FilterOptions, failed bool, kinds ...string) query.FilterOptions {
	o.Failed = failed
	if len(kinds) > 0 {
		o.Kinds = kinds
	}
	return o
}

// byHost is the filter of a client address.
func byHost(host string) query.FilterOptions {
	if host == "" {
		return query.FilterOptions{Not: &query.FilterOptions{Clients: []string{"0.0.0.0/0", "::/0", "[local]"}}}
	}
	return query.FilterOptions{Clients: []string{host}}
}

// byCommand is the filter of a command tag: those that begin with it and go on are excluded.
func (f *figures) byCommand(command string) query.FilterOptions {
	o := named(command, func(o *query.FilterOptions, v []string) { o.Commands = v })
	for other := range f.commands.of {
		if len(other) > len(command)+1 && strings.EqualFold(other[:len(command)+1], command+" ") {
			if o.Not == nil {
				o.Not = &query.FilterOptions{}
			}
			o.Not.Commands = append(o.Not.Commands, other)
		}
	}
	return o
}

// byState is the filter of what failed with an SQLSTATE, or without one.
func (f *figures) byState(sqlstate string) query.FilterOptions {
	switch {
	case stateFormat.MatchString(sqlstate):
		return query.FilterOptions{Failed: true, SQLStates: []string{sqlstate}}
	case sqlstate != "" || f.states.pruned:
		return none
	}
	o := query.FilterOptions{Failed: true, Not: &query.FilterOptions{}}
	for other := range f.states.of {
		if stateFormat.MatchString(other) {
			o.Not.SQLStates = append(o.Not.SQLStates, other)
		} else if other != "" {
			return none
		}
	}
	return o
}

// byPair is the filter of the use of a relation by a user.
func byPair(p *pair) query.FilterOptions {
	o := byUser(p.user)
	if p.database == "" || strings.ContainsAny(p.relation+p.database, "*\r\x00") {
		return none
	}
	o.Databases, o.Objects, o.Kinds = []string{p.database}, []string{p.relation}, []string{"statement"}
	return o
}

func hex16(n uint64) string {
	s := strconv.FormatUint(n, 16)
	return strings.Repeat("0", 16-len(s)) + s
}
