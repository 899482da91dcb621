// The headings under which help, manual pages and docs/commands list flags.

package cmdutil

import (
	"cmp"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Heading is the heading of a group of flags.
type Heading string

const (
	Filters Heading = "Filters"
	Range   Heading = "Range"
	Sources Heading = "Sources"
	Checks  Heading = "Checks"
	Keys    Heading = "Keys and proof"
	Output  Heading = "Output"
	Other   Heading = "Other"
)

// headings are the flags of each group, in the order in which they are listed. A flag has the same meaning in all
// commands, or stands here with its command: "change key" is --key of "steno review change". The filters that
// commands share are not here: MarkFilters marks them.
var headings = []struct {
	heading Heading
	flags   []string
}{
	{Filters, []string{"record", "user", "app-user", "role", "note", "large", "value", "table", "change key"}},
	{Range, []string{"since", "until", "at", "window", "new-since", "follow", "lines", "limit", "slot", "advance",
		"past-missing", "before", "from", "to"}},
	{Sources, []string{"file", "dsn", "psql", "grants", "database", "changes", "rings", "dry-run", "config", "sink",
		"ship to", "server", "ca"}},
	{Checks, []string{"expect", "max-age", "max-lag", "keep", "fail-on-loss", "disk-warning", "disk-critical",
		"slot-warning", "offline", "units", "state", "begin", "for", "remember", "forget"}},
	{Keys, []string{"check", "key", "anchor", "acknowledged-by", "state-key", "full", "sign", "unsigned",
		"signing-key-file", "encryption-key-command", "encryption-key-file"}},
	{Output, []string{
		"format", "detail", "verbose", "show", "compliance", "by", "interval", "once", "fields", "time-zone", "color",
		"no-pager", "expanded", "pgaudit", "log-line-prefix",
		"no-header", "csv-safe", "schema-version", "explain", "out", "rotate-size", "rotate-keep", "compression",
		"script", "in-place", "confirm",
	}},
	{Other, []string{"reason", "force", "restart", "memory-limit", "temp-dir", "allow-files", "no-descriptions",
		"version", "help"}},
}

// sharedFilter is the annotation of the filters that commands share, which "steno help filters" explains.
const sharedFilter = "shared filter"

// MarkFilters marks flags as filters that commands share.
func MarkFilters(f *pflag.FlagSet, names ...string) {
	for _, name := range names {
		_ = f.SetAnnotation(name, sharedFilter, []string{always})
	}
}

// IsSharedFilter reports whether a flag is a filter that commands share.
func IsSharedFilter(f *pflag.Flag) bool { return f.Annotations[sharedFilter] != nil }

// headingOf returns the index of the heading of a flag, and the flag's place under it; -1 if it has none.
func headingOf(cmd *cobra.Command, f *pflag.Flag) (heading, at int) {
	if IsSharedFilter(f) {
		return 0, len(headings[0].flags)
	}
	for _, name := range []string{cmd.Name() + " " + f.Name, f.Name} {
		for i, h := range headings {
			if at := slices.Index(h.flags, name); at >= 0 {
				return i, at
			}
		}
	}
	return -1, -1
}

// FlagGroup are the flags of a command under one heading.
type FlagGroup struct {
	Heading Heading // empty: the flags have none
	Flags   []*pflag.Flag
}

// ListFlags are the flags of a command that are not hidden, by their headings. If one has no heading, as those of the
// laboratory, all are listed together.
func ListFlags(cmd *cobra.Command) (all []FlagGroup) {
	type placed struct {
		heading, at int
		flag        *pflag.Flag
	}
	var found []placed
	together := false
	cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			heading, at := headingOf(cmd, f)
			found = append(found, placed{heading, at, f})
			together = together || heading < 0
		}
	})
	if together {
		all = make([]FlagGroup, 1)
		for _, p := range found {
			all[0].Flags = append(all[0].Flags, p.flag)
		}
		return all
	}
	slices.SortStableFunc(found, func(a, b placed) int { return cmp.Or(a.heading-b.heading, a.at-b.at) })
	for i, p := range found {
		if i == 0 || p.heading != found[i-1].heading {
			all = append(all, FlagGroup{Heading: headings[p.heading].heading})
		}
		last := &all[len(all)-1]
		last.Flags = append(last.Flags, p.flag)
	}
	return all
}

// SplitShared divides flags into the filters that commands share, and the others.
func SplitShared(flags []*pflag.Flag) (shared, others []*pflag.Flag) {
	for _, f := range flags {
		if IsSharedFilter(f) {
			shared = append(shared, f)
		} else {
			others = append(others, f)
		}
	}
	return shared, others
}

// NameFilters names filters in a sentence: each of those with an opposite once.
func NameFilters(filters []*pflag.Flag) string {
	has := func(name string) bool {
		return slices.ContainsFunc(filters, func(f *pflag.Flag) bool { return f.Name == name })
	}
	var both, single []string
	for _, f := range filters {
		switch {
		case has("not-" + f.Name):
			both = append(both, "--"+f.Name)
		case !strings.HasPrefix(f.Name, "not-"):
			single = append(single, "--"+f.Name)
		}
	}
	return strings.Join(both, ", ") + ", each also as --not-NAME; " + strings.Join(single, ", ")
}

// FlagsWithHeading are the flags that stand under a heading, some with their command.
func FlagsWithHeading() (all []string) {
	for _, h := range headings {
		all = append(all, h.flags...)
	}
	return all
}
