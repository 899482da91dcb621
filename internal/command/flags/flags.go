// Package flags puts the choices of package query on commands that read trails.
package flags

import (
	"github.com/spf13/cobra"

	"github.com/pg-steno/pg_steno/internal/command/cmdutil"
	"github.com/pg-steno/pg_steno/internal/query"
	"github.com/pg-steno/pg_steno/internal/trail"
)

// FilterNames are the flags that must have a value.
var FilterNames = []string{
	"since", "until", "user", "role", "app-user", "database", "application", "client", "session",
	"class", "kind", "command", "object", "audited", "grep", "xid",
}

// AddFilter adds the flags that choose records.
func AddFilter(cmd *cobra.Command, o *query.FilterOptions) {
	f := cmd.Flags()
	f.StringVar(&o.Since, "since", "", "only records that started at this `time` or later: 2026-11-21T20:45, yesterday, 10m, \"2h ago\"")
	f.StringVar(&o.Until, "until", "", "only records that started before this `time`")
	f.StringSliceVarP(&o.Users, "user", "u", nil, "only these session `users`")
	f.StringSliceVar(&o.Roles, "role", nil, "only these current `roles`; the session user if no other role was set")
	f.StringSliceVar(&o.AppUsers, "app-user", nil, "only these end `users` behind a connection pool")
	f.StringSliceVarP(&o.Databases, "database", "d", nil, "only these `databases`")
	f.StringSliceVarP(&o.Applications, "application", "a", nil, "only these `application` names")
	f.StringSliceVar(&o.Clients, "client", nil, "only these client `addresses`, with or without a port, networks such as 10.0.0.0/8, or [local]")
	f.StringSliceVar(&o.Sessions, "session", nil, "only these `sessions`, with their parallel workers")
	f.StringSliceVar(&o.Classes, "class", nil, "only these `classes` of statements: read, write, ddl, role ...")
	f.StringSliceVar(&o.Kinds, "kind", nil, "only these `kinds` of records: statement, connect, auth_failed, setting ...")
	f.StringSliceVar(&o.Commands, "command", nil, "only commands that begin with these `words`: SELECT, \"CREATE TABLE\", DROP")
	f.StringArrayVar(&o.Objects, "object", nil, "only statements that use this `relation` or object, or this column of a relation; * matches any characters: public.staff, staff.salary, hr.*")
	f.StringSliceVar(&o.Audited, "audited", nil, "only records that were written for these `reasons`: session, object, mandatory, rule")
	f.StringArrayVar(&o.Grep, "grep", nil, "only records whose text, message or one of whose parameters matches this `regexp` (RE2; begin with (?i) to ignore case)")
	f.StringSliceVar(&o.XIDs, "xid", nil, "only statements of transactions with these `IDs`, and the outcomes of the transactions")
	f.BoolVar(&o.Failed, "failed", false, "only records of what failed, was refused or was interrupted")
	kinds, classes, _ := trail.Names()
	complete := func(values []string) func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		return func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return values, cobra.ShellCompDirectiveNoFileComp
		}
	}
	_ = cmd.RegisterFlagCompletionFunc("kind", complete(kinds))
	_ = cmd.RegisterFlagCompletionFunc("class", complete(classes))
	_ = cmd.RegisterFlagCompletionFunc("audited", complete(trail.Reasons()))
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
