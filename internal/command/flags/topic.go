// The help of the filters, which commands share: "steno help filters", and the section FILTERS of manual pages.

package flags

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/pg-steno/pg_steno/internal/command/cmdutil"
)

// HelpPart is a part of the help of the filters: a text, or flags that follow it.
type HelpPart struct {
	Title string // empty: it has none
	Text  string // paragraphs, which empty lines separate
	Flags []*pflag.Flag
	Both  bool // each of the flags has an opposite
}

// HelpParts are the parts of the help of the filters.
func HelpParts() []HelpPart {
	cmd := &cobra.Command{}
	var f Filter
	f.Add(cmd)
	f.AddStatements(cmd)
	f.AddOffHours(cmd)
	var with, without []*pflag.Flag
	for _, flag := range allFlags(cmd) {
		switch {
		case cmd.Flags().Lookup("not-"+flag.Name) != nil:
			with = append(with, flag)
		case !strings.HasPrefix(flag.Name, "not-"):
			without = append(without, flag)
		}
	}
	period := &cobra.Command{}
	period.Flags().SortFlags = false
	new(Period).Add(period)
	return []HelpPart{
		{"", howFiltersWork, nil, false},
		{"Filters with an opposite", "", with, true},
		{"Filters without one", "", without, false},
		{"Times", timesOfFilters, allFlags(period), false},
		{"What filters may miss", whatFiltersMiss, nil, false},
	}
}

// allFlags are the flags of a command as they were defined.
func allFlags(cmd *cobra.Command) (all []*pflag.Flag) {
	cmd.Flags().VisitAll(func(f *pflag.Flag) { all = append(all, f) })
	return all
}

var howFiltersWork = `Filters choose records. They are flags of cat, tail, top, report, prove and export; the help ` +
	`of a command names those that it has.

Different filters must all match; of several values of one filter, one must match. Values are repeated (--user a ` +
	`--user b) or separated by commas (--user a,b). A comma in a name is \, and quotes are part of the name. In ` +
	`values of ` + wholeLists() + `, commas mean nothing: repeat these for several values.

A filter whose name begins with "not-" excludes what the one without it chooses: --not-user, --not-class. What any ` +
	`of several excludes is excluded. A record without the thing, for example without a class, is not excluded.

Names of users, roles, databases and applications are case-sensitive; kinds, classes and commands are not. A ` +
	`command is matched by its first words: CREATE also finds CREATE TABLE.`

const timesOfFilters = `These are an ISO date, with or without a time of day (2026-11-21, 2026-11-21T20:45:13.5); ` +
	`a time of day, meaning today (22:00); now, today or yesterday, the latter two also with a time of day; or an ` +
	`age: 10m, "2h ago", 1d12h, "3 months". m is a minute; mo and mon are months. A date or time can be followed by ` +
	`an offset (+09:00) or the name of a zone (Asia/Tokyo). Without either, it is UTC, or in the zone of ` +
	`--time-zone, for commands that have it.`

const whatFiltersMiss = `Lines on standard error that begin with "steno: incomplete:" tell of what an answer may ` +
	`lack although the trail is whole: names that occur nowhere in the trail, and the nearest one that does; ` +
	`records that leave out the relations, parameters or texts that were asked for, or were made before their ` +
	`statement ended; times in which settings left these out; and renames, because records have the names of their ` +
	`time. They do not change the exit code.`

// wholeLists names the filters whose values have commas.
func wholeLists() string {
	var names []string
	for _, l := range lists {
		if l.whole {
			names = append(names, "--"+l.name)
		}
	}
	last := len(names) - 1
	return strings.Join(names[:last], ", ") + " and " + names[last]
}

// NewTopic returns the help of the filters, as a command that does nothing else.
func NewTopic() *cobra.Command {
	var b strings.Builder
	for i, p := range HelpParts() {
		if i > 0 {
			b.WriteString("\n" + p.Title + ":\n")
		}
		indent := 2
		if p.Title == "" {
			indent = 0
		}
		if p.Both {
			b.WriteString(cmdutil.FilterHelp(p.Flags))
		} else {
			b.WriteString(cmdutil.FlagHelp(p.Flags))
		}
		if p.Text != "" && len(p.Flags) > 0 {
			b.WriteString("\n")
		}
		paragraphs := slices.Collect(strings.SplitSeq(p.Text, "\n\n"))
		for j, text := range paragraphs {
			if j > 0 {
				b.WriteString("\n")
			}
			if text != "" {
				b.WriteString(cmdutil.Wrap(text, indent) + "\n")
			}
		}
	}
	return &cobra.Command{Use: "filters", Short: "Filters of cat, tail, top, report, prove and export",
		Long: b.String()}
}
