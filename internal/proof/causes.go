// The list of everything that can hide records from an answer. docs/proof.md prints it, and the tests go through it.

package proof

import (
	"regexp"
	"slices"
	"strings"
)

// Cause is a reason why an answer may lack records.
type Cause struct {
	// What it is, and which records it can hide.
	What, Hides string
	// Recorded says whether the verdict on whether everything was recorded also has it: yes, or why not.
	Recorded string
	// pattern matches the sentences about it.
	pattern string
}

// Matches reports whether a sentence of a verdict is about this cause.
func (c *Cause) Matches(sentence string) bool {
	return regexp.MustCompile("(?s)" + c.pattern).MatchString(sentence)
}

// CauseOf returns the causes that a sentence of a verdict is about.
func CauseOf(sentence string) (all []string) {
	for i := range Causes {
		if Causes[i].Matches(sentence) {
			all = append(all, Causes[i].What)
		}
	}
	return all
}

// settingCause returns the cause for a setting of the server or of sessions.
func settingCause(setting, hides string) Cause {
	const listed = `not recorded (throughout|until|since|from|in \d|in session).*: `
	return Cause{"`" + setting + "`", hides, yes, listed + regexp.QuoteMeta(setting) + " = "}
}

// Why the other verdict does not have a cause.
const (
	yes       = "yes"
	onlyThere = "yes, and only there: no filter asks for it"
	isThere   = "no: the records are there"
	notLacked = "no: it is about the question"
	intact    = "no: the first verdict has it"
)

// Causes are all causes.
var Causes = slices.Concat(causesOfSettings, causesOfNames, causesOfTimes, causesOfRecords)

var causesOfSettings = []Cause{
	settingCause("steno.log", "statements and events of the classes that it leaves out"),
	settingCause("steno.log_nested", "statements in functions"),
	settingCause("steno.log_catalog", "reads of nothing but `pg_catalog`"),
	settingCause("steno.log_referential_checks", "queries of foreign keys"),
	settingCause("steno.log_extension_scripts", "statements in scripts of extensions"),
	settingCause("steno.log_relation", "what statements use; with a filter by object"),
	settingCause("steno.log_statement", "texts; with a filter by text"),
	settingCause("steno.log_parameter", "parameters; with a filter by text"),
	settingCause("steno.log_parameter_max_size", "large parameters; with a filter by text"),
	{"`steno.log_rows`", "how many rows statements returned", onlyThere, `not recorded .*: steno\.log_rows = `},
	settingCause("steno.delivery", "records that found no space, of which gap records may come later"),
	{"`steno.rules_file`", "statements that rules skip or sample, and texts that they redact", yes,
		`not recorded .*: there (was|were) \d+ rules?( \(server: .*\))?$`},
	{"`steno.mandatory` without `setting`", "changes of settings that `steno.log` left out", yes,
		`^changes of settings were not mandatory`},
	settingCause("log_min_messages", "statements that failed before they were planned, and failed logins"),
	{"a statement to an earlier version that may have set `log_min_messages`",
		"the same, in its session or in later ones", yes, `may have set log_min_messages`},
	{"settings at the beginning of the range that no record states", "whatever they left out", "yes: *not known*",
		`^which settings were in effect`},
	{"sessions that had begun before the first seal of the proof", "what their own settings left out", notLacked,
		`settings that sessions changed for themselves`},
}

var causesOfNames = []Cause{
	{"a rename in the range, of an object, its schema, a role or a database", "what was done under the other name",
		isThere, `was renamed to .*records have the names of their time(\n|$)`},
	{"a rename before the range, since the last start before it", "what was done under the new name", isThere,
		`was renamed to .*; (that was before the range|whether its transaction)`},
	{"a rename whose transaction had not ended when the range began", "what was done under the other name", isThere,
		`the transaction had not ended when the range began`},
	{"a direct change of a catalog that has names, or an `ALTER` that leaves out objects", "the same", isThere,
		`which may have renamed what the filter asks for|and may have renamed`},
	{"a prepared transaction from before the start, or one whose commit is not recorded", "what it renamed", isThere,
		`prepared transactions were not recorded|that was prepared before the server's start`},
	{"another user of a session: `SET SESSION AUTHORIZATION`", "what a user did as another one; with a filter by user",
		isThere, `had another user, too|may have got another user|may have had, another user`},
	{"a name that occurs nowhere", "everything, if it is misspelled", notLacked,
		`^no .* (of the name .* occurs|matches )`},
}

var causesOfTimes = []Cause{
	{"a transaction that wrote, and whose statements another library hid", "these statements", yes,
		`another library hid`},
	{"gap records: dropped records, lost rings", "records of the number that they state", yes, `were lost.*\(.*\)$`},
	{"a time before the trail began", "everything", "no: it is about the time since", `^nothing was recorded before`},
	{"a time in which the server was stopped, or ran without pg_steno", "everything", yes,
		`^nothing was recorded (from|since)`},
	{"an end without a stop", "the last records, unless they were recovered", yes, `ended without stopping`},
	{"an unfinished block that was cut off", "records of the last moments before", yes,
		`unfinished block was cut off`},
	{"a run that had recorded in another trail", "what it had recorded, but for what was in its ring file", yes,
		`^a run of the server that did not stop had recorded in another trail`},
	{"what else the server has reported, such as `failure`", "records of that time", yes, `^the server reported`},
	{"a branch: a stream that was altered, cut off or copied", "what it had", intact,
		`was begun at .* (because stream|with a copy)|began to record at|the record of a branch`},
	{"blocks that only the next run sealed", "what was there before", intact, `were sealed only at`},
	{"the stop of one of several servers", "what it recorded later, if it was started again", notLacked,
		`its server was stopped at`},
	{"a last seal soon after the range", "records of the last moments", notLacked, `its last seal in the proof`},
	{"a number of streams that nothing states", "whole streams", intact, `^how many streams`},
}

var causesOfRecords = []Cause{
	{"a record that leaves out relations or objects", "what else the statement used; with a filter by object", yes,
		`leaves? out (relations|objects)|lacks relations and objects`},
	{"a record that leaves out parameters or part of its text", "what they contain; with a filter by text", yes,
		`leaves out parameters|only the beginning of its text` +
			`|the value of a parameter|leaves? out relations, objects, parameters`},
	{"a statement that was interrupted, or still running", "its relations, class and duration", isThere,
		`because the statement had not ended|does not state how long`},
	{"a statement that was refused before its objects were known", "which they are; with a filter by object", isThere,
		`was refused before it was known`},
	{"a user or role without a certain name", "whose record it is; with a filter by user or role", isThere,
		`for certain which user or role`},
	{"more than 20 records or sessions of these kinds", "are counted, and not listed", isThere,
		`^[0-9,]+ (records?|sessions?) .*more (may match|may have)` +
			`|^[0-9,]+ more|more may match|more of these users|more may have set`},
}

// CausesTable is the table of docs/proof.md.
func CausesTable() string {
	var b strings.Builder
	b.WriteString("| what | hides | `recorded` |\n|---|---|---|\n")
	for _, c := range Causes {
		b.WriteString("| " + c.What + " | " + c.Hides + " | " + c.Recorded + " |\n")
	}
	return b.String()
}
