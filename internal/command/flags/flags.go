// Package flags converts between the flags of commands that read trails and values of package query. The constructors
// there explain what is wrong with a value; this package adds the name of the flag.
package flags

import (
	"slices"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/pg-steno/pg_steno/internal/command/cmdutil"
	"github.com/pg-steno/pg_steno/internal/exit"
	"github.com/pg-steno/pg_steno/internal/format"
	"github.com/pg-steno/pg_steno/internal/query"
	"github.com/pg-steno/pg_steno/internal/trail"
)

// list is the flag of a filter with a list of values: query.Lists has the filter by this name. Each has a flag that
// chooses, and one with "not-" before its name that excludes.
type list struct {
	name, short string
	usage       string // what follows "only" or "not"; the value's name is in backquotes
	whole       bool   // commas are part of a value
}

var lists = []list{
	{"user", "u", "these session `users`", false},
	{"role", "", "these current `roles`; the session user if no other role was set", false},
	{"app-user", "", "these end `users` behind a connection pool", false},
	{"identity", "", "this authenticated `identity`, such as a principal or the subject of a certificate", true},
	{"app-context", "", "this `context` as set by the application, such as a request ID", true},
	{"database", "d", "these `databases`", false},
	{"application", "a", "these `application` names", false},
	{"client", "", "these client `addresses`, with or without a port, networks such as 10.0.0.0/8, or [local]", false},
	{"session", "", "these `sessions`, with their parallel workers", false},
	{"class", "", "these `classes` of statements: read, write, ddl, role ...", false},
	{"kind", "", "these `kinds` of records: statement, connect, auth_failed, setting ...", false},
	{"command", "", "commands that begin with these `words`: SELECT, \"CREATE TABLE\", DROP", false},
	{"object", "", "statements that use this `relation` or object, or this column of a relation; * matches any " +
		"characters: public.staff, staff.salary, hr.*", true},
	{"audited", "", "records that were written for these `reasons`: session, object, mandatory, rule", false},
	{"grep", "", "records whose text, message or one of whose parameters matches this `regexp` (RE2)", true},
	{"xid", "", "statements of transactions with these `IDs`, and the outcomes of the transactions", false},
	{"sqlstate", "", "records with these `SQLSTATEs`, or classes of them: 42501, 23", false},
}

// filter is the filter of a flag.
func (l *list) filter() *query.List {
	all := query.Lists()
	return &all[slices.IndexFunc(all, func(f query.List) bool { return f.Name == l.name })]
}

// FilterNames are the flags that must have a value.
var FilterNames = func() []string {
	names := []string{"since", "until", "min-duration"}
	for _, l := range lists {
		names = append(names, l.name, "not-"+l.name)
	}
	return names
}()

// Period are the flags that say when, as they were given.
type Period struct{ Since, Until string }

// Add adds them to a command.
func (p *Period) Add(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&p.Since, "since", "", "only records that started at this `time` or later: 2026-11-21T20:45, "+
		"yesterday, 10m, \"2h ago\"")
	f.StringVar(&p.Until, "until", "", "only records that started before this `time`")
}

// Range returns the range that the flags mean. Times that name no zone are in the given one.
func (p *Period) Range(now time.Time, zone *time.Location) (r query.Range, err error) {
	r = query.Always
	if p.Since != "" {
		if r.Since, err = query.ParseWhenIn(p.Since, now, zone); err != nil {
			return r, cmdutil.FlagError("since", err)
		}
	}
	if p.Until != "" {
		if r.Until, err = query.ParseWhenIn(p.Until, now, zone); err != nil {
			return r, cmdutil.FlagError("until", err)
		}
	}
	if _, err := query.NewRange(r.Since, r.Until); err != nil {
		return r, exit.Usagef("--until %s is not later than --since %s", p.Until, p.Since)
	}
	return r, nil
}

// Records are the flags that choose records of a period.
type Records struct {
	Period
	Filter
}

// Add adds them to a command.
func (r *Records) Add(cmd *cobra.Command) {
	r.Period.Add(cmd)
	r.Filter.Add(cmd)
}

// Parse returns the criteria and the range that the flags mean. Times that name no zone, and working hours, are in
// the given one.
func (r *Records) Parse(now time.Time, zone *time.Location) (c *query.Criteria, within query.Range, err error) {
	if within, err = r.Range(now, zone); err == nil {
		c, err = r.Criteria(zone)
	}
	return c, within, err
}

// Filter has the flags that choose records, as they were given.
type Filter struct {
	lists map[string]*[]string // by the names of the flags

	minDuration                            string
	ignoreCase, failed, topLevel, offHours bool
}

// Add adds the flags that all commands with filters have.
func (f *Filter) Add(cmd *cobra.Command) {
	fs := cmd.Flags()
	fs.SortFlags = false // help names filters in this order
	f.lists = map[string]*[]string{}
	for _, l := range lists {
		f.add(fs, l)
	}
	fs.BoolVarP(&f.ignoreCase, "ignore-case", "i", false, "make no difference between upper and lower case in "+
		"--grep and --not-grep")
	fs.StringVar(&f.minDuration, "min-duration", "", "only records with this `duration` or a longer one: 250ms, 2s")
	fs.BoolVar(&f.failed, "failed", false, "only records of what failed, was refused or was interrupted")
	cmdutil.MarkFilters(fs, "ignore-case", "min-duration", "failed")
	kinds, classes, _ := format.Names()
	for name, values := range map[string][]string{"kind": kinds, "class": classes, "audited": format.Reasons()} {
		for _, prefix := range []string{"", "not-"} {
			_ = cmd.RegisterFlagCompletionFunc(prefix+name,
				cobra.FixedCompletions(slices.Clone(values), cobra.ShellCompDirectiveNoFileComp))
		}
	}
}

// AddStatements adds the flags that choose among statements, for commands whose answers are not proved.
func (f *Filter) AddStatements(cmd *cobra.Command) {
	fs := cmd.Flags()
	f.add(fs, list{"fingerprint", "", "statements with these `fingerprints`, as reports and SQL show them: " +
		"statements that differ only in constants have the same one", false})
	fs.BoolVar(&f.topLevel, "top-level", false, "only statements that clients sent, not those that functions and "+
		"triggers ran")
	cmdutil.MarkFilters(fs, "top-level")
}

// AddOffHours adds --off-hours, which needs the time zone of --time-zone.
func (f *Filter) AddOffHours(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&f.offHours, "off-hours", false, "only outside of Monday to Friday, 07:00 to 19:00, in the "+
		"time zone of --time-zone")
	cmdutil.MarkFilters(cmd.Flags(), "off-hours")
}

// add adds a filter and its opposite.
func (f *Filter) add(fs *pflag.FlagSet, l list) {
	if l.whole {
		fs.StringArrayVarP(f.list(l.name), l.name, l.short, nil, "only "+l.usage)
		fs.StringArrayVar(f.list("not-"+l.name), "not-"+l.name, nil, "not "+l.usage)
	} else {
		addNames(fs, f.list(l.name), l.name, l.short, "only "+l.usage)
		addNames(fs, f.list("not-"+l.name), "not-"+l.name, "", "not "+l.usage)
	}
	cmdutil.MarkFilters(fs, l.name, "not-"+l.name)
}

// list returns the place of a flag's values.
func (f *Filter) list(flag string) *[]string {
	if f.lists[flag] == nil {
		f.lists[flag] = new([]string)
	}
	return f.lists[flag]
}

// Criteria returns the criteria that the flags mean. Working hours are those of the zone.
func (f *Filter) Criteria(zone *time.Location) (*query.Criteria, error) {
	c := &query.Criteria{Failed: f.failed, TopLevel: f.topLevel, Not: &query.Criteria{}}
	for _, l := range query.Lists() {
		if err := l.Add(c, *f.list(l.Name)...); err != nil {
			return nil, cmdutil.FlagError(l.Name, err)
		}
		if err := l.Add(c.Not, *f.list("not-" + l.Name)...); err != nil {
			return nil, cmdutil.FlagError("not-"+l.Name, err)
		}
	}
	if f.ignoreCase {
		if err := c.IgnoreCase(); err != nil {
			return nil, cmdutil.FlagError("ignore-case", err)
		}
	}
	if f.minDuration != "" {
		least, err := query.ParseDuration(f.minDuration)
		if err != nil {
			return nil, cmdutil.FlagError("min-duration", err)
		}
		c.MinDuration = &least
	}
	if f.offHours {
		c.OffHours = zone
	}
	return c, nil
}

// AddKeys adds the flags for keys of encrypted segments.
func AddKeys(cmd *cobra.Command, o *query.KeyOptions) {
	f := cmd.Flags()
	f.StringArrayVar(&o.Commands, "encryption-key-command", nil, "shell `command` that prints keys of encrypted "+
		"segments (default $STENO_ENCRYPTION_KEY_COMMAND); repeatable")
	f.StringArrayVar(&o.Files, "encryption-key-file", nil, "`file` with keys of encrypted segments, one per line, "+
		"as 64 hexadecimal digits; repeatable")
}

// Positions are the flags that choose blocks by their place, as they were given.
type Positions struct {
	Slot, Before string

	wants func(trail, slot string) (func(stream uint32) uint64, error)
}

// Add adds them to a command.
func (p *Positions) Add(cmd *cobra.Command, f *cmdutil.Factory) {
	p.wants = f.SlotBlocks
	cmd.Flags().StringVar(&p.Slot, "slot", "", "only records in blocks that this `slot` still needs")
	cmd.Flags().StringVar(&p.Before, "before", "", "only records in blocks before this `position`, as printed by "+
		"\"steno slot end\"")
}

// Ends returns the blocks of --before; nil if it was not given.
func (p *Positions) Ends() ([]query.Position, error) {
	if p.Before == "" {
		return nil, nil
	}
	ends, err := query.ParseBlocks(p.Before)
	if err != nil {
		return nil, cmdutil.FlagError("before", err)
	}
	return ends, nil
}

// Blocks returns a function that reports whether a block is chosen; nil: all blocks are.
func (p *Positions) Blocks(t *trail.Trail) (func(*trail.BlockRef) bool, error) {
	if p.Slot == "" && p.Before == "" {
		return nil, nil
	}
	if !t.Whole || t.Path == "" {
		return nil, exit.Usagef("--slot and --before require a single trail")
	}
	ends, err := p.Ends()
	if err != nil {
		return nil, err
	}
	if err := query.LocateEnds(t, ends); err != nil {
		return nil, cmdutil.FlagError("before", err)
	}
	from := func(uint32) uint64 { return 0 }
	if p.Slot != "" {
		if from, err = p.wants(t.Path, p.Slot); err != nil {
			return nil, err
		}
	}
	before := map[uint32]uint64{}
	for _, end := range ends {
		before[end.Stream] = end.Block
	}
	return func(r *trail.BlockRef) bool {
		n := r.Segment.Stream.Number
		return r.Number >= from(n) && (ends == nil || r.Number < before[n])
	}, nil
}
