// The dimensions of the matrix: ways to log (variants) and points of load (workloads, protocols, numbers of clients).

package logging

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/pg-steno/pg_steno/lab/bench"
	"github.com/pg-steno/pg_steno/lab/cluster"
)

// variant is one way to log what a server does, or not to log it.
type variant struct {
	name, title string
	preload     []string // libraries that must be loaded when the server starts
	major       int      // first version of PostgreSQL that supports it; 0: any
	settings    []cluster.Setting
}

// base is the variant that the others are compared with.
const base = "none"

// variants are the rows of the matrix, in the order of the tables. Their settings can be changed by a reload; only the
// libraries that they preload require a restart.
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

// VariantNames returns the names of the variants that can be compared.
func VariantNames() []string {
	var names []string
	for _, v := range variants {
		names = append(names, v.name)
	}
	return names
}

// missing is a variant that is excluded, with the reason.
type missing struct{ name, reason string }

// chosen returns the variants with these names, or all, with the base first.
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

// installed splits variants into those that servers of an installation support, and the others.
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

// majorVersion parses "PostgreSQL 15.20 (Debian ...)".
func majorVersion(version string) int {
	_, text, _ := strings.Cut(version, " ")
	if i := strings.IndexFunc(text, func(r rune) bool { return r < '0' || r > '9' }); i >= 0 {
		text = text[:i]
	}
	n, _ := strconv.Atoi(text)
	return n
}

// workload is a load of pgbench.
type workload struct {
	name, title string
	builtin     string // one of pgbench's own scripts, which needs its tables
	text        string // a script of this package
	path        string // path of a script that is not pgbench's own
	writes      bool
}

var workloads = []workload{
	{name: "select", title: "pgbench -S", builtin: "select-only"},
	{name: "tpcb", title: "pgbench, TPC-B-like", builtin: "tpcb-like", writes: true},
	{name: "select1", title: "SELECT 1", text: "SELECT 1;\n"},
	{name: "update", title: "pgbench -N", builtin: "simple-update", writes: true},
}

const filePrefix = "file:"

// findWorkload looks up a workload by name. A script of the user must be readable.
func findWorkload(name string) (workload, error) {
	for _, w := range workloads {
		if w.name == name {
			return w, nil
		}
	}
	path, ok := strings.CutPrefix(name, filePrefix)
	if !ok {
		return workload{}, fmt.Errorf("no workload \"%s\"; there are select, tpcb, select1, update and file:PATH",
			name)
	}
	info, err := os.Stat(path)
	if err != nil {
		return workload{}, fmt.Errorf("cannot use pgbench script: %w", err)
	}
	if !info.Mode().IsRegular() || info.Size() == 0 {
		return workload{}, fmt.Errorf("\"%s\" is not a pgbench script: it is empty, or not a file", path)
	}
	if path, err = filepath.Abs(path); err != nil {
		return workload{}, err
	}
	script := filepath.Base(path)
	// its contents are not known, so it may write
	return workload{name: filePrefix + script, title: script, path: path, writes: true}, nil
}

// write writes the script of a workload to a directory, for pgbench.
func (w *workload) write(dir string) error {
	if w.text == "" {
		return nil
	}
	w.path = filepath.Join(dir, w.name+".sql")
	return os.WriteFile(w.path, []byte(w.text), 0o644)
}

// point is a load that runs on every variant.
type point struct {
	workload workload
	protocol string
	clients  int
}

// points expands the lists; the clients vary fastest.
func points(loads []workload, protocols []string, clients []int) []point {
	var all []point
	for _, w := range loads {
		for _, protocol := range protocols {
			for _, n := range clients {
				all = append(all, point{w, protocol, n})
			}
		}
	}
	return all
}

func (p point) title() string {
	return fmt.Sprintf("%s -M %s, %d clients", p.workload.title, p.protocol, p.clients)
}

// args returns pgbench's arguments for a slice of this many seconds.
func (p point) args(seconds int) []string {
	script := "--builtin=" + p.workload.builtin
	if p.workload.builtin == "" {
		script = "--file=" + p.workload.path
	}
	return []string{
		"--no-vacuum", script, "--protocol=" + p.protocol, "--client=" + strconv.Itoa(p.clients),
		"--jobs=" + strconv.Itoa(min(p.clients, runtime.NumCPU())), "--time=" + strconv.Itoa(seconds),
	}
}

// checkLists checks the lists of the matrix, and looks up the workloads.
func checkLists(names, protocols []string, clients []int) ([]workload, error) {
	var loads []workload
	for _, name := range names {
		w, err := findWorkload(name)
		if err != nil {
			return nil, err
		}
		if slices.ContainsFunc(loads, func(o workload) bool { return o.name == w.name }) {
			return nil, fmt.Errorf("two workloads have the name \"%s\"", w.name)
		}
		loads = append(loads, w)
	}
	for i, protocol := range protocols {
		if !slices.Contains(bench.Protocols, protocol) {
			return nil, fmt.Errorf("no protocol \"%s\"; there are simple, extended and prepared", protocol)
		}
		if slices.Contains(protocols[:i], protocol) {
			return nil, fmt.Errorf("protocol \"%s\" is given twice", protocol)
		}
	}
	for i, n := range clients {
		if n < 1 {
			return nil, fmt.Errorf("at least 1 client is needed, not %d", n)
		}
		if slices.Contains(clients[:i], n) {
			return nil, fmt.Errorf("%d clients are given twice", n)
		}
	}
	if len(loads) == 0 || len(protocols) == 0 || len(clients) == 0 {
		return nil, fmt.Errorf("--workload, --protocol and --clients each need a value")
	}
	return loads, nil
}
