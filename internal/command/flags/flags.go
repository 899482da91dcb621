// Package flags puts the choices of package query on commands that read trails.
package flags

import (
	"slices"

	"github.com/spf13/cobra"

	"github.com/pg-steno/pg_steno/internal/command/cmdutil"
	"github.com/pg-steno/pg_steno/internal/query"
	"github.com/pg-steno/pg_steno/internal/trail"
)

// list is a filter with a list of values. Each has a flag that chooses, and one with "not-"
// before its name that excludes.
type list struct {
	name, short string
	usage       string // what follows "only" or "not"; the value's name is in backquotes
	whole       bool   // commas are part of a value
	of          func(*query.FilterOptions) *[]string
}

var lists = []list{
	{"user", "u", "these session `users`", false, func(o *query.FilterOptions) *[]string { return &o.Users }},
	{"role", "", "these current `roles`; the session user if no other role was set", false, func(o *query.FilterOptions) *[]string { return &o.Roles }},
	{"app-user", "", "these end `users` behind a connection pool", false, func(o *query.FilterOptions) *[]string { return &o.AppUsers }},
	{"identity", "", "this authenticated `identity`, such as a principal or the subject of a certificate", true, func(o *query.FilterOptions) *[]string { return &o.Identities }},
	{"app-context", "", "this `context` as set by the application, such as a request ID", true, func(o *query.FilterOptions) *[]string { return &o.AppContexts }},
	{"database", "d", "these `databases`", false, func(o *query.FilterOptions) *[]string { return &o.Databases }},
	{"application", "a", "these `application` names", false, func(o *query.FilterOptions) *[]string { return &o.Applications }},
	{"client", "", "these client `addresses`, with or without a port, networks such as 10.0.0.0/8, or [local]", false, func(o *query.FilterOptions) *[]string { return &o.Clients }},
	{"session", "", "these `sessions`, with their parallel workers", false, func(o *query.FilterOptions) *[]string { return &o.Sessions }},
	{"class", "", "these `classes` of statements: read, write, ddl, role ...", false, func(o *query.FilterOptions) *[]string { return &o.Classes }},
	{"kind", "", "these `kinds` of records: statement, connect, auth_failed, setting ...", false, func(o *query.FilterOptions) *[]string { return &o.Kinds }},
	{"command", "", "commands that begin with these `words`: SELECT, \"CREATE TABLE\", DROP", false, func(o *query.FilterOptions) *[]string { return &o.Commands }},
	{"object", "", "statements that use this `relation` or object, or this column of a relation; * matches any characters: public.staff, staff.salary, hr.*", true, func(o *query.FilterOptions) *[]string { return &o.Objects }},
	{"audited", "", "records that were written for these `reasons`: session, object, mandatory, rule", false, func(o *query.FilterOptions) *[]string { return &o.Audited }},
	{"grep", "", "records whose text, message or one of whose parameters matches this `regexp` (RE2)", true, func(o *query.FilterOptions) *[]string { return &o.Grep }},
	{"xid", "", "statements of transactions with these `IDs`, and the outcomes of the transactions", false, func(o *query.FilterOptions) *[]string { return &o.XIDs }},
	{"sqlstate", "", "records with these `SQLSTATEs`, or classes of them: 42501, 23", false, func(o *query.FilterOptions) *[]string { return &o.SQLStates }},
}

// FilterNames are the flags that must have a value.
var FilterNames = func() []string {
	names := []string{"since", "until", "min-duration"}
	for _, l := range lists {
		names = append(names, l.name, "not-"+l.name)
	}
	return names
}()

// AddFilter adds the flags that choose records.
func AddFilter(cmd *cobra.Command, o *query.FilterOptions) {
	f := cmd.Flags()
	f.StringVar(&o.Since, "since", "", "only records that started at this `time` or later: 2026-11-21T20:45, yesterday, 10m, \"2h ago\"")
	f.StringVar(&o.Until, "until", "", "only records that started before this `time`")
	AddConditions(cmd, o)
}

// AddConditions adds those of them that do not say when, for commands that have a time of their
// own.
func AddConditions(cmd *cobra.Command, o *query.FilterOptions) {
	f := cmd.Flags()
	o.Not = &query.FilterOptions{}
	for _, l := range lists {
		if l.whole {
			f.StringArrayVarP(l.of(o), l.name, l.short, nil, "only "+l.usage+"; repeatable")
			f.StringArrayVar(l.of(o.Not), "not-"+l.name, nil, "not "+l.usage+"; repeatable")
			continue
		}
		AddNames(f, l.of(o), l.name, l.short, "only "+l.usage)
		AddNames(f, l.of(o.Not), "not-"+l.name, "", "not "+l.usage)
	}
	f.BoolVarP(&o.IgnoreCase, "ignore-case", "i", false, "make no difference between upper and lower case in --grep and --not-grep")
	f.StringVar(&o.MinDuration, "min-duration", "", "only records with this `duration` or a longer one: 250ms, 2s")
	f.BoolVar(&o.Failed, "failed", false, "only records of what failed, was refused or was interrupted")
	kinds, classes, _ := trail.Names()
	for name, values := range map[string][]string{"kind": kinds, "class": classes, "audited": trail.Reasons()} {
		for _, prefix := range []string{"", "not-"} {
			_ = cmd.RegisterFlagCompletionFunc(prefix+name, cobra.FixedCompletions(slices.Clone(values), cobra.ShellCompDirectiveNoFileComp))
		}
	}
}

// AddStatements adds the flags that choose among statements, of commands whose answers are not proved.
func AddStatements(cmd *cobra.Command, o *query.FilterOptions) {
	f := cmd.Flags()
	AddNames(f, &o.Fingerprints, "fingerprint", "", "only statements with these `fingerprints`: statements that differ only in constants have the same one")
	AddNames(f, &o.Not.Fingerprints, "not-fingerprint", "", "not statements with these `fingerprints`")
	f.BoolVar(&o.TopLevel, "top-level", false, "only statements that clients sent, not those that functions and triggers ran")
}

// AddOffHours adds the flag that needs the time zone of --time-zone.
func AddOffHours(cmd *cobra.Command, o *query.FilterOptions) {
	cmd.Flags().BoolVar(&o.OffHours, "off-hours", false, "only outside of Monday to Friday, 07:00 to 19:00, in the time zone of --time-zone")
}

// AddKeys adds the flags that say where keys of encrypted segments come from.
func AddKeys(cmd *cobra.Command, o *query.KeyOptions) {
	f := cmd.Flags()
	f.StringArrayVar(&o.Commands, "encryption-key-command", nil, "shell `command` that prints keys of encrypted segments (default $STENO_ENCRYPTION_KEY_COMMAND); repeatable")
	f.StringArrayVar(&o.Files, "encryption-key-file", nil, "`file` with keys of encrypted segments, one per line, as 64 hexadecimal digits; repeatable")
}

// AddPositions adds the flags that choose blocks by their place.
func AddPositions(cmd *cobra.Command, f *cmdutil.Factory, o *query.PositionOptions) {
	o.Wants = f.SlotWants
	cmd.Flags().StringVar(&o.Slot, "slot", "", "only records in blocks that this `slot` still needs")
	cmd.Flags().StringVar(&o.Before, "before", "", "only records in blocks before this `position`, as printed by \"steno slot end\"")
}
