package logging

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/pg-steno/pg_steno/internal/lab/cluster"
)

// variant is one way to log, or not to log, what a server does.
type variant struct {
	name, title string
	preload     []string // libraries that must be loaded when the server starts
	major       int      // first version of PostgreSQL that has it; 0: any
	settings    []cluster.Setting
}

// base is what the others are compared with.
const base = "none"

// variants are the matrix, in the order of tables. What they set, a reload can
// change; only what they preload takes a start.
var variants = []variant{
	{name: base, title: "none"},
	{name: "log_statement", title: "log_statement=all", settings: []cluster.Setting{{Name: "log_statement",
		Value: "all"}}},
	{name: "log_duration", title: "log_duration", settings: []cluster.Setting{{Name: "log_duration", Value: "on"}}},
	{name: "both", title: "log_statement + log_duration", settings: both()},
	{name: "both_io", title: "both + track_io_timing",
		settings: both(cluster.Setting{Name: "track_io_timing", Value: "on"})},
	{name: "csvlog", title: "log_statement, csvlog", settings: []cluster.Setting{
		{Name: "log_statement", Value: "all"}, {Name: logDestination, Value: "csvlog"}}},
	{name: "jsonlog", title: "log_statement, jsonlog", major: 15, settings: []cluster.Setting{
		{Name: "log_statement", Value: "all"}, {Name: logDestination, Value: "jsonlog"}}},
	{name: "pgaudit", title: "pgaudit", preload: []string{"pgaudit"}, settings: pgaudit()},
	{name: "pgaudit_file", title: "pgaudit + pgauditlogtofile", preload: []string{"pgaudit", "pgauditlogtofile"},
		settings: pgaudit()},
	{name: "steno", title: "pg_steno", preload: []string{"pg_steno"}, settings: []cluster.Setting{
		{Name: "steno.log", Value: "all"}}},
	{name: "steno_sync", title: "pg_steno, sync", preload: []string{"pg_steno"}, settings: []cluster.Setting{
		{Name: "steno.log", Value: "all"}, {Name: "steno.sync", Value: "write, ddl, role"}}},
}

const logDestination = "log_destination"

func both(more ...cluster.Setting) []cluster.Setting {
	return append([]cluster.Setting{
		{Name: "log_statement", Value: "all"}, {Name: "log_duration", Value: "on"},
	}, more...)
}

func pgaudit() []cluster.Setting {
	return []cluster.Setting{{Name: "pgaudit.log", Value: "all"}, {Name: "pgaudit.log_parameter", Value: "on"}}
}

// VariantNames are what can be compared.
func VariantNames() []string {
	var names []string
	for _, v := range variants {
		names = append(names, v.name)
	}
	return names
}

// missing is a variant that is left out, and why.
type missing struct{ name, reason string }

// chosen returns the variants of those names, or all, with the base first.
func chosen(names []string) ([]variant, error) {
	if len(names) == 0 {
		return variants, nil
	}
	for i, name := range names {
		if !slices.Contains(VariantNames(), name) {
			return nil, fmt.Errorf("no variant \"%s\"; there are %s", name, strings.Join(VariantNames(), ", "))
		}
		if slices.Contains(names[:i], name) {
			return nil, fmt.Errorf("variant \"%s\" is given twice", name)
		}
	}
	var list []variant
	for _, v := range variants {
		if v.name == base || slices.Contains(names, v.name) {
			list = append(list, v)
		}
	}
	if len(list) < 2 {
		return nil, fmt.Errorf("nothing to compare with \"%s\"", base)
	}
	return list, nil
}

// installed splits variants into those that servers of an installation can
// have, and the rest.
func installed(list []variant, major int, has func(library string) bool) (can []variant, not []missing) {
next:
	for _, v := range list {
		if major < v.major {
			not = append(not, missing{v.name, fmt.Sprintf("it needs PostgreSQL %[2]d; this is %[1]d", major, v.major)})
			continue
		}
		for _, library := range v.preload {
			if !has(library) {
				not = append(not, missing{v.name, library + " is not installed"})
				continue next
			}
		}
		can = append(can, v)
	}
	return can, not
}

// majorVersion reads "PostgreSQL 15.20 (Debian ...)".
func majorVersion(version string) int {
	_, text, _ := strings.Cut(version, " ")
	if i := strings.IndexFunc(text, func(r rune) bool { return r < '0' || r > '9' }); i >= 0 {
		text = text[:i]
	}
	n, _ := strconv.Atoi(text)
	return n
}
