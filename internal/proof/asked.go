// Evaluates a question: which records, blocks and indexes it needs. Making and checking a proof use the same
// functions, so that they agree.

package proof

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/pg-steno/pg_steno/internal/format"
	"github.com/pg-steno/pg_steno/internal/query"
)

// evaluator is a question prepared for use by one goroutine.
type evaluator struct {
	question     *Question
	since, until int64
	session      string // of a record question
	seq          uint64

	filter              *query.Filter
	matcher             query.Matcher
	withoutParts        query.Matcher // for records whose data parts are not joined
	sessionMatcher      query.Matcher // the part of the filter about sessions
	fixedSessionMatcher query.Matcher // the part of sessionMatcher that a session cannot change, so without its user

	needsObjects, needsShapes, needsTexts bool
	needsRows                             bool     // numbers of rows must have been recorded
	needsCatalogs                         bool     // reads of pg_catalog may be asked for
	onlySettings                          []string // settings that matter; nil: all
	// the answer must be complete, even about statements that run longer than anything should
	proves                 bool
	objectNames, roleNames bool // the filter has names that renames change

	contents func(*format.Contents) format.Groups // nil: the filter cannot use an index
}

func newEvaluator(q *Question) (*evaluator, error) {
	a := &evaluator{question: q, since: format.MinTime, until: format.MaxTime, proves: true}
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
	a.withoutParts = query.Matcher{Filter: f, WithoutParts: true}
	who := query.Criteria{Users: q.Filter.Users, Databases: q.Filter.Databases, Sessions: q.Filter.Sessions}
	a.sessionMatcher.Filter = who.Filter()
	who.Users = nil
	a.fixedSessionMatcher.Filter = who.Filter()
	a.objectNames, a.roleNames = f.AsksNames()
	o := &q.Filter
	a.needsObjects, a.needsTexts = len(o.Objects) > 0, len(o.Grep) > 0
	a.needsShapes = a.needsObjects || len(o.Classes)+len(o.Commands) > 0
	a.needsCatalogs = a.mayBeCatalog()
	return a, nil
}

// reset is called before the records of another block.
func (a *evaluator) reset() {
	for _, m := range []*query.Matcher{&a.matcher, &a.withoutParts, &a.sessionMatcher, &a.fixedSessionMatcher} {
		m.Reset()
	}
}

// inRange reports whether a record is in the range of the question.
func (a *evaluator) inRange(r *format.Record) bool { return a.since <= r.Time && r.Time < a.until }

// mayMatch reports whether a record may match, whatever its text, message and parameters.
func (a *evaluator) mayMatch(r *format.Record) bool {
	if a.question.Record != "" {
		return r.Seq == a.seq && r.Session.ID().String() == a.session
	}
	return a.inRange(r) && a.matcher.MayKeep(r)
}

// matches reports whether a record matches.
func (a *evaluator) matches(r *format.Record) bool {
	return a.mayMatch(r) && (a.question.Record != "" || a.matcher.Keep(r))
}

// reasonUndecided returns why a record that does not match might do so if it said more; empty for all others. Data
// parts of the record are not joined.
func (a *evaluator) reasonUndecided(r *format.Record) string {
	if a.question.Record != "" || !a.inRange(r) {
		return ""
	}
	return a.withoutParts.HiddenReason(r)
}

// renamedBefore returns the renames of a record before the range. In the range, the object has its new name, or may
// get it there if the transaction had not ended.
func (a *evaluator) renamedBefore(r *format.Record) []query.Renamed {
	if r.Kind != format.KindStatement || r.Outcome == format.OutcomeError || r.Time >= a.since ||
		!(a.objectNames || a.roleNames) {
		return nil
	}
	return a.filter.AllRenames(r)
}

// committedBefore reports whether a statement was a transaction of its own that was committed before the range.
func (a *evaluator) committedBefore(r *format.Record) bool {
	us, ok := r.ExtraValue("commit_us")
	if !ok {
		return false
	}
	commit, err := strconv.ParseInt(string(us), 10, 64)
	return err == nil && r.End()+commit < a.since
}

// preparedEvent returns the event of a record about a two-phase commit: a transaction was prepared, or committed
// later. It is empty for other records, and if the filter has no names that renames change.
func (a *evaluator) preparedEvent(r *format.Record) string {
	if r.Kind != format.KindTransaction || r.Time >= a.until || !(a.objectNames || a.roleNames) {
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

// selectPrepared selects the groups of an index that may have the statements of such events, and so the records
// beside them.
func selectPrepared(c *format.Contents) format.Groups {
	return c.Select(format.TermsCommands, func(v []byte) bool {
		return string(v) == "PREPARE TRANSACTION" || string(v) == "COMMIT PREPARED"
	})
}

// endsBefore reports whether a record is that of the end of a transaction before the range. A prepared transaction
// has not ended.
func (a *evaluator) endsBefore(r *format.Record) bool {
	if r.Kind != format.KindTransaction || r.Time >= a.since {
		return false
	}
	event, _ := r.ExtraValue("event")
	return string(event) != format.EventPrepare.String()
}

// disconnectsBefore reports whether a record is that of the end of a session before the range. That also ends its
// transaction, which has no record of its own if class transaction is not recorded.
func (a *evaluator) disconnectsBefore(r *format.Record) bool {
	return r.Kind == format.KindDisconnect && r.Time < a.since
}

// ShowsLack reports whether a record shows what the trail may lack. Such records are part of every answer about a
// range.
func ShowsLack(r *format.Record) bool { return isTelling(r) || maySetMinMessages(r) }

// isTelling is ShowsLack for records about more than their own session.
func isTelling(r *format.Record) bool { return tellingKind(r.Kind) || r.Unseen() }

// mayHideFailures reports whether a statement may have hidden failures that the question is about.
func (a *evaluator) mayHideFailures(r *format.Record) bool {
	return a.ofStatements() && r.Time < a.until && maySetMinMessages(r)
}

func tellingKind(k format.Kind) bool {
	return k == format.KindServer || k == format.KindSetting || k == format.KindGap
}

// LackGroups selects the groups of an index that have such records.
func LackGroups(c *format.Contents) format.Groups {
	g := tellingGroups(c)
	g.Or(selectMinMessages(c))
	return g
}

func tellingGroups(c *format.Contents) format.Groups {
	g := c.SelectResult(func(k format.Kind, _ format.Outcome) bool { return tellingKind(k) })
	g.Or(c.SelectOmissions("statements"))
	return g
}

// neededGroups selects the groups of an index whose blocks the answer needs. Before the range, these are blocks with
// settings that were in effect when it began, and with renames.
func (a *evaluator) neededGroups(c *format.Contents, before bool) format.Groups {
	if before {
		g := c.SelectResult(func(k format.Kind, _ format.Outcome) bool {
			return k == format.KindServer || k == format.KindSetting
		})
		if a.objectNames || a.roleNames { // see renamedBefore
			g.Or(a.filter.SelectRenames(c))
			g.Or(selectPrepared(c))
		}
		if len(a.question.Filter.Users) > 0 {
			g.Or(a.selectSwitches(c))
		}
		return g
	}
	if a.contents == nil || a.question.Full || (a.needsObjects || a.needsTexts) && !c.HasOmissions() {
		return c.All()
	}
	g := a.contents(c)
	g.Or(tellingGroups(c))
	if a.objectNames || a.roleNames {
		g.Or(a.filter.SelectRenames(c))
		g.Or(selectPrepared(c))
	}
	if len(a.question.Filter.Users) > 0 {
		g.Or(a.selectSwitches(c))
	}
	return g
}

// selection says which of the blocks that an index covers an answer needs.
type selection struct {
	first, blocks, group uint64
	inRange, before      format.Groups
	mayHideFailures      format.Groups // with statements that may have hidden failures, if texts are searched for them

	at uint64 // number of the block that is the index
}

func (a *evaluator) selectionOf(c *format.Contents, at uint64) selection {
	s := selection{c.First, c.Blocks, c.Group, a.neededGroups(c, false), a.neededGroups(c, true), nil, at}
	if a.ofStatements() {
		s.mayHideFailures = selectMinMessages(c)
	}
	return s
}

// searchScope is where an answer needs blocks.
type searchScope struct {
	before        bool // before the range
	searchesTexts bool // texts are searched for statements that may have hidden failures
}

// excludes reports whether the answer needs nothing of a block. end is the first later block of which this is not
// known.
func (s *selection) excludes(block uint64, where searchScope) (end uint64, ok bool) {
	if block < s.first || block-s.first >= s.blocks {
		return 0, false
	}
	group := (block - s.first) / s.group
	wanted := s.inRange
	if where.before {
		wanted = s.before
	}
	if wanted.Has(int(group)) || where.searchesTexts && s.mayHideFailures != nil && s.mayHideFailures.Has(int(group)) {
		return 0, false
	}
	return min(s.first+(group+1)*s.group, s.first+s.blocks), true
}

// selections are the selections of a stream's indexes, in the order of their blocks.
type selections []selection

func (all selections) sort() {
	slices.SortFunc(all, func(a, b selection) int { return cmp.Compare(a.first, b.first) })
}

// excludes asks the selection that covers the block. Indexes that a server wrote do not overlap; if forged ones do,
// those that are not asked exclude nothing.
func (all selections) excludes(block uint64, where searchScope) (end uint64, ok bool) {
	i, found := slices.BinarySearchFunc(all, block, func(s selection, block uint64) int {
		return cmp.Compare(s.first, block)
	})
	if !found {
		i--
	}
	if i < 0 {
		return 0, false
	}
	return all[i].excludes(block, where)
}

// mayBeSeals reports whether the filter may match seals. These are records of a writer's session, without user,
// database, client and text.
func (a *evaluator) mayBeSeals() bool {
	o := &a.question.Filter
	if len(o.Kinds) > 0 && !slices.Contains(o.Kinds, format.KindSeal) || len(o.Clients) > 0 {
		return false
	}
	for _, list := range [][]string{o.Users, o.Databases, o.AppUsers, o.Identities} {
		if len(list) > 0 && !slices.Contains(list, "") {
			return false
		}
	}
	return !a.needsShapes && !a.needsTexts && !o.Failed && len(o.XIDs) == 0
}

// skipsSealsAtEnds reports whether blocks that contain only the seal at the end of a segment may be left out.
func (a *evaluator) skipsSealsAtEnds(before bool) bool {
	return before || !a.question.Full && !a.mayBeSeals()
}

// ---- which settings can hide what is asked for ----

// classes returns the classes that must have been recorded for the answer; nil if it needs none.
func (a *evaluator) classes() []string {
	_, all, _ := format.Names()
	o := &a.question.Filter
	statements := len(o.Kinds) == 0 || slices.Contains(o.Kinds, format.KindStatement) ||
		slices.Contains(o.Kinds, format.KindStart)
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

// ofStatements reports whether the filter may match statements.
func (a *evaluator) ofStatements() bool {
	return slices.ContainsFunc(a.classes(), func(c string) bool { return c != "connect" && c != "setting" })
}

// mayBeCatalog reports whether the filter may match successful reads of pg_catalog.
func (a *evaluator) mayBeCatalog() bool {
	o := &a.question.Filter
	if !slices.Contains(a.classes(), format.ClassRead.String()) || o.Failed || len(o.SQLStates) > 0 {
		return false
	}
	if len(o.Commands) > 0 && !slices.ContainsFunc(o.Commands, func(c string) bool { return !neverReads(c) }) {
		return false
	}
	if !a.needsObjects || len(o.Objects) == 0 {
		return true
	}
	return slices.ContainsFunc(o.Objects, func(name string) bool {
		schema, _, qualified := strings.Cut(name, ".")
		return !qualified || strings.ContainsAny(schema, `*"`) || strings.EqualFold(schema, "pg_catalog")
	})
}

// changing are the first words of commands that never have class read.
var changing = []string{
	"INSERT", "UPDATE", "DELETE", "MERGE", "TRUNCATE", "CREATE", "ALTER", "DROP", "COMMENT", "GRANT", "REVOKE", "SET",
	"RESET", "BEGIN", "COMMIT", "ROLLBACK",
}

// neverReads reports whether a command never has class read.
func neverReads(command string) bool {
	words := strings.Fields(command)
	return len(words) > 0 && slices.ContainsFunc(changing, func(c string) bool {
		return strings.EqualFold(c, words[0])
	})
}

// noRules is the recorded value of steno.rules_file without rules: records have the number of rules instead of the
// file.
const noRules = "0 rules"

// defaults are the defaults of the settings that decide what is recorded.
var defaults = map[string]string{
	"steno.log":                    "all",
	"steno.mandatory":              "role, ddl, connect, setting",
	"steno.log_nested":             "on",
	"steno.log_catalog":            "on",
	"steno.log_referential_checks": "on",
	"steno.log_extension_scripts":  "on",
	"steno.log_relation":           "on",
	"steno.log_statement":          "on",
	"steno.log_parameter":          "on",
	"steno.log_parameter_max_size": "0",
	"steno.log_rows":               "on",
	"steno.rules_file":             noRules,
	"steno.delivery":               "wait",
	MinMessages:                    "warning",
}

// decides reports whether a setting decides what is recorded of the answer.
func (a *evaluator) decides(name string) bool {
	_, known := defaults[name]
	return known && (a.onlySettings == nil || slices.Contains(a.onlySettings, name))
}

// leavesOut returns what a value of a setting can leave out of the answer; empty if nothing. mandatory is the value
// of steno.mandatory.
func (a *evaluator) leavesOut(name, value, mandatory string) string {
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
		if off && a.needsCatalogs {
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
		if off && a.needsObjects {
			return "the relations of statements"
		}
	case "steno.log_statement":
		if off && a.needsTexts {
			return "the texts of statements"
		}
	case "steno.log_parameter":
		if off && a.needsTexts {
			return "the parameters of statements"
		}
	case "steno.log_rows":
		if off && a.needsRows {
			return "the numbers of rows that statements returned, by which exports are recognized,"
		}
	case "steno.log_parameter_max_size":
		if value != "0" && a.needsTexts {
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

// renamingClasses returns the classes of statements that can rename what the filter names.
func (a *evaluator) renamingClasses() (classes []string) {
	if a.objectNames {
		classes = append(classes, format.ClassDDL.String())
	}
	if a.roleNames {
		classes = append(classes, format.ClassRole.String())
	}
	return classes
}

// mayMissRenames reports whether steno.log and other settings can leave out such statements.
func (a *evaluator) mayMissRenames(mandatory string) bool {
	return slices.ContainsFunc(a.renamingClasses(), func(class string) bool { return !listsClass(mandatory, class) })
}

// hiddenStatements describes the statements that leave no record with a high log_min_messages.
const hiddenStatements = "statements that failed before they were planned"

// leavesOutRenames is leavesOut for sessions that do not match the filter, of which only renames matter.
func (a *evaluator) leavesOutRenames(name, value, mandatory string) string {
	only := &evaluator{question: &Question{Filter: query.Criteria{Kinds: []format.Kind{format.KindSeal}}},
		objectNames: a.objectNames,
		roleNames:   a.roleNames}
	return only.leavesOut(name, value, mandatory)
}

// listsClass reports whether a list of classes contains a class. It returns false for values that are no such list:
// records have only the beginning of a long value, and a hash, and the rest may exclude classes.
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

// isOn reports whether a value of a boolean setting is true.
func isOn(value string) bool {
	return slices.Contains([]string{"on", "true", "yes", "1", "t", "y"}, strings.ToLower(value))
}

// SettingDefault is the default of a setting that decides what is recorded.
func SettingDefault(name string) (value string, known bool) {
	value, known = defaults[name]
	return value, known
}
