// What a question asks of records, blocks and indexes. The one who makes a proof and the
// one who checks it use the same functions, so that they agree.

package proof

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/pg-steno/pg_steno/internal/format"
	"github.com/pg-steno/pg_steno/internal/query"
)

// asked is a question made ready for use by one goroutine.
type asked struct {
	q            *Question
	since, until int64
	session      string // of a record question
	seq          uint64

	filter  *query.Filter
	matcher query.Matcher
	apart   query.Matcher // the same, of records whose data parts are not joined
	who     query.Matcher // what the filter says about sessions as a whole
	fixed   query.Matcher // what of that a session cannot change: not its user

	objects, shapes, grep bool
	rows                  bool     // numbers of rows
	catalogs              bool     // reads of pg_catalog may be asked for
	only                  []string // settings that matter; nil: all
	proves                bool     // that nothing is missing, even of what ran for longer than anything should
	ofObjects, ofRoles    bool     // names are asked for that may change

	contents func(*format.Contents) format.Groups // nil: the filter cannot use an index
}

func ask(q *Question) (*asked, error) {
	a := &asked{q: q, since: format.MinTime, until: format.MaxTime, proves: true}
	if q.Record != "" {
		session, seq, err := q.record()
		if err != nil {
			return nil, err
		}
		a.session, a.seq = session.String(), seq
		a.filter = (&query.Criteria{Sessions: []format.SessionID{session}}).Filter()
		a.matcher.Filter = a.filter
		return a, nil
	}
	f := q.Filter.Filter()
	a.filter, a.since, a.until = f, q.Range.Since, q.Range.Until
	a.matcher.Filter, a.contents = f, f.Contents()
	a.apart = query.Matcher{Filter: f, Apart: true}
	who := query.Criteria{Users: q.Filter.Users, Databases: q.Filter.Databases, Sessions: q.Filter.Sessions}
	a.who.Filter = who.Filter()
	who.Users = nil
	a.fixed.Filter = who.Filter()
	a.ofObjects, a.ofRoles = f.AsksNames()
	o := &q.Filter
	a.objects, a.grep = len(o.Objects) > 0, len(o.Grep) > 0
	a.shapes = a.objects || len(o.Classes)+len(o.Commands) > 0
	a.catalogs = a.mayBeCatalog()
	return a, nil
}

// reset is called before the records of another block.
func (a *asked) reset() {
	for _, m := range []*query.Matcher{&a.matcher, &a.apart, &a.who, &a.fixed} {
		m.Reset()
	}
}

// inRange says whether the question is about a record's time.
func (a *asked) inRange(r *format.Record) bool { return a.since <= r.Time && r.Time < a.until }

// guess says whether a record may be asked for, whatever its text, message and parameters.
func (a *asked) guess(r *format.Record) bool {
	if a.q.Record != "" {
		return r.Seq == a.seq && r.Session.ID().String() == a.session
	}
	return a.inRange(r) && a.matcher.Guess(r)
}

// keep says whether a record is asked for.
func (a *asked) keep(r *format.Record) bool {
	return a.guess(r) && (a.q.Record != "" || a.matcher.Keep(r))
}

// hides says why a record may be one that is asked for although it does not match: it does
// not say enough. It is empty for all others. Data parts of the record are not joined.
func (a *asked) hides(r *format.Record) string {
	if a.q.Record != "" || !a.inRange(r) {
		return ""
	}
	return a.apart.Hides(r)
}

// renamedBefore are the renames of a record before the range: what had a name has another one in the range, or, if the
// transaction had not ended, may get one there.
func (a *asked) renamedBefore(r *format.Record) []query.Renamed {
	if r.Kind != format.KindStatement || r.Outcome == format.OutcomeError || r.Time >= a.since || !(a.ofObjects || a.ofRoles) {
		return nil
	}
	return a.filter.AllRenames(r)
}

// committedBefore says whether a statement was a transaction of its own, which was committed before the range.
func (a *asked) committedBefore(r *format.Record) bool {
	us, ok := r.ExtraValue("commit_us")
	if !ok {
		return false
	}
	commit, err := strconv.ParseInt(string(us), 10, 64)
	return err == nil && r.End()+commit < a.since
}

// preparedEvent is what a record says of a transaction that a PREPARE has prepared, or a later command has committed.
// Empty: it says neither, or it does not matter, because no names are asked for.
func (a *asked) preparedEvent(r *format.Record) string {
	if r.Kind != format.KindTransaction || r.Time >= a.until || !(a.ofObjects || a.ofRoles) {
		return ""
	}
	switch event, _ := r.ExtraValue("event"); string(event) {
	case format.EventPrepare.String():
		return format.EventPrepare.String()
	case format.EventCommitPrepared.String():
		if a.inRange(r) {
			return format.EventCommitPrepared.String()
		}
	}
	return ""
}

// selectPrepared selects the groups of an index that may have the statements of such events, and so the records beside them.
func selectPrepared(c *format.Contents) format.Groups {
	return c.Select(format.TermsCommands, func(v []byte) bool { return string(v) == "PREPARE TRANSACTION" || string(v) == "COMMIT PREPARED" })
}

// endsBefore says whether a record is that of the end of a transaction before the range. One that was only prepared
// has not ended.
func (a *asked) endsBefore(r *format.Record) bool {
	if r.Kind != format.KindTransaction || r.Time >= a.since {
		return false
	}
	event, _ := r.ExtraValue("event")
	return string(event) != format.EventPrepare.String()
}

// leavesBefore says whether a record is that of the end of a session before the range, and with it of the session's
// transaction, of whose end there is no record if class transaction is not recorded.
func (a *asked) leavesBefore(r *format.Record) bool {
	return r.Kind == format.KindDisconnect && r.Time < a.since
}

// Tells says whether a record tells what the trail can lack. Such records are part of every
// answer about a range.
func Tells(r *format.Record) bool { return tells(r) || quiets(r) }

// tells is the same of those that are about more than their session.
func tells(r *format.Record) bool { return tellingKind(r.Kind) || r.Unseen() }

// quiets says whether a statement may have hidden failures that are asked for.
func (a *asked) quiets(r *format.Record) bool {
	return a.ofStatements() && r.Time < a.until && quiets(r)
}

func tellingKind(k format.Kind) bool {
	return k == format.KindServer || k == format.KindSetting || k == format.KindGap
}

// TellingGroups selects the groups of an index that have such records.
func TellingGroups(c *format.Contents) format.Groups {
	g := tellingGroups(c)
	g.Or(selectQuiets(c))
	return g
}

func tellingGroups(c *format.Contents) format.Groups {
	g := c.SelectResult(func(k format.Kind, _ format.Outcome) bool { return tellingKind(k) })
	g.Or(c.SelectOmissions("statements"))
	return g
}

// wanted selects the groups of an index whose blocks the answer needs. Before the range,
// these are the ones that tell which settings were in effect when it began, and of renames.
func (a *asked) wanted(c *format.Contents, before bool) format.Groups {
	if before {
		g := c.SelectResult(func(k format.Kind, _ format.Outcome) bool { return k == format.KindServer || k == format.KindSetting })
		if a.ofObjects || a.ofRoles { // see renamedBefore
			g.Or(a.filter.SelectRenames(c))
			g.Or(selectPrepared(c))
		}
		if len(a.q.Filter.Users) > 0 {
			g.Or(a.selectSwitches(c))
		}
		return g
	}
	if a.contents == nil || a.q.Full || (a.objects || a.grep) && !c.HasOmissions() {
		return c.All()
	}
	g := a.contents(c)
	g.Or(tellingGroups(c))
	if a.ofObjects || a.ofRoles {
		g.Or(a.filter.SelectRenames(c))
		g.Or(selectPrepared(c))
	}
	if len(a.q.Filter.Users) > 0 {
		g.Or(a.selectSwitches(c))
	}
	return g
}

// selection is what of the blocks that an index covers an answer needs.
type selection struct {
	first, blocks, group uint64
	inRange, before      format.Groups
	quiets               format.Groups // with statements that may have hidden failures, if texts are searched for them

	at uint64 // number of the block that is the index
}

func (a *asked) selects(c *format.Contents, at uint64) selection {
	s := selection{c.First, c.Blocks, c.Group, a.wanted(c, false), a.wanted(c, true), nil, at}
	if a.ofStatements() {
		s.quiets = selectQuiets(c)
	}
	return s
}

// sought is where blocks are looked for that an answer needs.
type sought struct {
	before bool // before the range
	quiets bool // texts are searched for what may have hidden failures
}

// excludes says whether a block has nothing that the answer needs, and up to which block,
// exclusively, the same is true.
func (s *selection) excludes(block uint64, where sought) (end uint64, ok bool) {
	if block < s.first || block-s.first >= s.blocks {
		return 0, false
	}
	group := (block - s.first) / s.group
	wanted := s.inRange
	if where.before {
		wanted = s.before
	}
	if wanted.Has(int(group)) || where.quiets && s.quiets != nil && s.quiets.Has(int(group)) {
		return 0, false
	}
	return min(s.first+(group+1)*s.group, s.first+s.blocks), true
}

// selections are those of the indexes of a stream, in the order of their blocks.
type selections []selection

func (all selections) sort() {
	slices.SortFunc(all, func(a, b selection) int { return cmp.Compare(a.first, b.first) })
}

// excludes says the same for any of them. Those of a server do not overlap; of others, one
// that is not looked at excludes nothing.
func (all selections) excludes(block uint64, where sought) (end uint64, ok bool) {
	i, found := slices.BinarySearchFunc(all, block, func(s selection, block uint64) int { return cmp.Compare(s.first, block) })
	if !found {
		i--
	}
	if i < 0 {
		return 0, false
	}
	return all[i].excludes(block, where)
}

// mayBeSeals says whether the filter may choose seals. They are of a writer's session, which
// has no user, database or client, and have no text.
func (a *asked) mayBeSeals() bool {
	o := &a.q.Filter
	if len(o.Kinds) > 0 && !slices.Contains(o.Kinds, format.KindSeal) || len(o.Clients) > 0 {
		return false
	}
	for _, list := range [][]string{o.Users, o.Databases, o.AppUsers, o.Identities} {
		if len(list) > 0 && !slices.Contains(list, "") {
			return false
		}
	}
	return !a.shapes && !a.grep && !o.Failed && len(o.XIDs) == 0
}

// skipsSealsAtEnds says whether blocks may be left out that contain only the seal for the
// end of a segment.
func (a *asked) skipsSealsAtEnds(before bool) bool {
	return before || !a.q.Full && !a.mayBeSeals()
}

// ---- which settings can hide what is asked for ----

// classes are those that must have been recorded; nil if the answer needs none.
func (a *asked) classes() []string {
	_, all, _ := format.Names()
	o := &a.q.Filter
	statements := len(o.Kinds) == 0 || slices.Contains(o.Kinds, format.KindStatement) || slices.Contains(o.Kinds, format.KindStart)
	var needed []string
	if statements {
		for _, c := range o.Classes {
			needed = append(needed, c.String())
		}
		if len(needed) > 0 {
			return needed
		}
		return all
	}
	for _, k := range o.Kinds {
		switch k {
		case format.KindConnect, format.KindDisconnect, format.KindAuthFailed:
			needed = append(needed, "connect")
		case format.KindTransaction, format.KindSubtransaction:
			needed = append(needed, "transaction")
		case format.KindSetting:
			needed = append(needed, "setting")
		}
	}
	slices.Sort(needed)
	return slices.Compact(needed)
}

// ofStatements says whether statements are asked for.
func (a *asked) ofStatements() bool {
	return slices.ContainsFunc(a.classes(), func(c string) bool { return c != "connect" && c != "setting" })
}

// mayBeCatalog says whether statements that are asked for may be reads of pg_catalog that have not failed.
func (a *asked) mayBeCatalog() bool {
	o := &a.q.Filter
	if !slices.Contains(a.classes(), format.ClassRead.String()) || o.Failed || len(o.SQLStates) > 0 {
		return false
	}
	if len(o.Commands) > 0 && !slices.ContainsFunc(o.Commands, func(c string) bool { return !neverReads(c) }) {
		return false
	}
	if !a.objects || len(o.Objects) == 0 {
		return true
	}
	return slices.ContainsFunc(o.Objects, func(name string) bool {
		schema, _, qualified := strings.Cut(name, ".")
		return !qualified || strings.ContainsAny(schema, `*"`) || strings.EqualFold(schema, "pg_catalog")
	})
}

// changing are the first words of commands that are never of class read.
var changing = []string{
	"INSERT", "UPDATE", "DELETE", "MERGE", "TRUNCATE", "CREATE", "ALTER", "DROP", "COMMENT", "GRANT", "REVOKE", "SET", "RESET", "BEGIN", "COMMIT", "ROLLBACK",
}

// neverReads says whether a command is one that is never of class read.
func neverReads(command string) bool {
	words := strings.Fields(command)
	return len(words) > 0 && slices.ContainsFunc(changing, func(c string) bool { return strings.EqualFold(c, words[0]) })
}

// noRules is the value of steno.rules_file in the record of a change, which has the number of rules, if there are none.
const noRules = "0 rules"

// defaults are the values that settings have if the configuration does not set them, of
// those that decide what is recorded.
var defaults = map[string]string{
	"steno.log": "all", "steno.mandatory": "role, ddl, connect, setting",
	"steno.log_nested": "on", "steno.log_catalog": "on", "steno.log_referential_checks": "on", "steno.log_extension_scripts": "on",
	"steno.log_relation": "on", "steno.log_statement": "on", "steno.log_parameter": "on", "steno.log_parameter_max_size": "0",
	"steno.log_rows":   "on",
	"steno.rules_file": noRules, "steno.delivery": "wait", MinMessages: "warning",
}

// decides says whether a setting decides what is recorded, of those that are asked about.
func (a *asked) decides(name string) bool {
	_, known := defaults[name]
	return known && (a.only == nil || slices.Contains(a.only, name))
}

// leavesOut says what a value of a setting can leave out of the answer; empty if nothing.
// mandatory is that of steno.mandatory.
func (a *asked) leavesOut(name, value, mandatory string) string {
	off := !isOn(value)
	switch name {
	case "steno.log":
		var missing []string
		for _, class := range slices.Concat(a.classes(), a.renamingClasses()) {
			if !listsClass(value, class) && !listsClass(mandatory, class) && !slices.Contains(missing, class) {
				missing = append(missing, class)
			}
		}
		if len(missing) > 0 {
			return "statements and events of class " + strings.Join(missing, ", ")
		}
	case "steno.log_nested":
		if off && (a.ofStatements() || a.mayMissRenames(mandatory)) {
			return "statements in functions"
		}
	case "steno.log_catalog":
		if off && a.catalogs {
			return "queries of system catalogs"
		}
	case "steno.log_referential_checks":
		if off && a.ofStatements() {
			return "queries of foreign keys"
		}
	case "steno.log_extension_scripts":
		if off && (a.ofStatements() || a.mayMissRenames(mandatory)) {
			return "statements in scripts of extensions"
		}
	case "steno.log_relation":
		if off && a.objects {
			return "the relations of statements"
		}
	case "steno.log_statement":
		if off && a.grep {
			return "the texts of statements"
		}
	case "steno.log_parameter":
		if off && a.grep {
			return "the parameters of statements"
		}
	case "steno.log_rows":
		if off && a.rows {
			return "the numbers of rows that statements returned, by which exports are recognized,"
		}
	case "steno.log_parameter_max_size":
		if value != "0" && a.grep {
			return "large parameters"
		}
	case "steno.delivery":
		if value != "wait" && len(a.classes()) > 0 {
			return "records that found no space in their rings, of which gap records may come later,"
		}
	case MinMessages:
		if HidesFailures(value) && len(a.classes()) > 0 {
			return hiddenStatements + ", and failed logins,"
		}
	case "steno.rules_file":
		if value != noRules && (a.ofStatements() || len(a.renamingClasses()) > 0) {
			return "statements that its rules skip or sample, and texts that they redact"
		}
	}
	return ""
}

// renamingClasses are those of statements that can rename what the filter asks for.
func (a *asked) renamingClasses() (classes []string) {
	if a.ofObjects {
		classes = append(classes, format.ClassDDL.String())
	}
	if a.ofRoles {
		classes = append(classes, format.ClassRole.String())
	}
	return classes
}

// mayMissRenames says whether such statements are recorded only if steno.log and other settings say so.
func (a *asked) mayMissRenames(mandatory string) bool {
	return slices.ContainsFunc(a.renamingClasses(), func(class string) bool { return !listsClass(mandatory, class) })
}

// hiddenStatements are those that leave no record with a high log_min_messages.
const hiddenStatements = "statements that failed before they were planned"

// leavesOutRenames is leavesOut for sessions that the filter is not about: what they rename matters.
func (a *asked) leavesOutRenames(name, value, mandatory string) string {
	only := &asked{q: &Question{Filter: query.Criteria{Kinds: []format.Kind{format.KindSeal}}}, ofObjects: a.ofObjects, ofRoles: a.ofRoles}
	return only.leavesOut(name, value, mandatory)
}

// listsClass says whether a value of a list of classes contains a class. Of a value that
// is not such a list, it says no: a record has only the beginning of a long one, and a hash,
// and what is cut off may take classes off the list.
func listsClass(list, class string) bool {
	_, classes, _ := format.Names()
	listed := false
	for _, word := range strings.Split(list, ",") {
		word = strings.ToLower(strings.Trim(strings.TrimSpace(word), `"`))
		if name := strings.TrimPrefix(word, "-"); name != "all" && !slices.Contains(classes, name) {
			return false
		}
		removed, minus := strings.CutPrefix(word, "-")
		if removed == "all" || removed == class {
			listed = !minus
		}
	}
	return listed
}

// isOn says whether a value of a setting of type bool is true.
func isOn(value string) bool {
	return slices.Contains([]string{"on", "true", "yes", "1", "t", "y"}, strings.ToLower(value))
}

// Default is the default of a setting that decides what is recorded.
func Default(name string) (value string, known bool) {
	value, known = defaults[name]
	return value, known
}
