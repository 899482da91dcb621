package commands

import (
	"github.com/pg-steno/pg_steno/internal/lab/bench/result"
	"github.com/pg-steno/pg_steno/internal/lab/cluster"
)

// Names of dimensions in cases and files.
const (
	dimVariant = "variant"
	dimWay     = "way"
)

// base reports nothing.
const (
	base       = "bare"
	again      = "again"
	activities = "track_activities"
)

// variant is what a session's server does for each statement.
type variant struct {
	name, title string
	library     string // that is preloaded
	session     []cluster.Setting
}

// server names the one that the variant's sessions are on.
func (v variant) server() string {
	if v.library == "" {
		return "plain"
	}
	return v.library
}

func set(name, value string) cluster.Setting { return cluster.Setting{Name: name, Value: value} }

var (
	noActivities = set("track_activities", "off")
	noCounts     = set("track_counts", "off")
	bare         = []cluster.Setting{noActivities, noCounts}
)

var variants = []variant{
	{name: base, title: "nothing reported", session: bare},
	{name: again, title: "nothing reported, again", session: bare},
	{name: activities, title: "track_activities", session: []cluster.Setting{set("track_activities", "on"), noCounts}},
	{name: "track_counts", title: "track_counts", session: []cluster.Setting{noActivities, set("track_counts", "on")}},
	{name: "both", title: "both, the server's default",
		session: []cluster.Setting{set("track_activities", "on"), set("track_counts", "on")}},
	{name: "log_statement", title: "log_statement=all",
		session: append([]cluster.Setting{set("log_statement", "all")}, bare...)},
	{name: "pg_stat_statements", title: "pg_stat_statements", library: "pg_stat_statements", session: bare},
	{name: "steno", title: "pg_steno", library: "pg_steno", session: bare},
}

func variantNames() []string {
	var names []string
	for _, v := range variants {
		names = append(names, v.name)
	}
	return names
}

// serverSettings are those of every server.
var serverSettings = []cluster.Setting{
	set("shared_buffers", "128MB"), set("autovacuum", "off"), set("checkpoint_timeout", "1h"),
	set("logging_collector", "on"), set("log_directory", "log"), set("log_filename", "postgresql"),
	set("log_line_prefix", "%m [%p] %q%u@%d "), set("log_checkpoints", "off"),
}

// librarySettings are further ones of the servers with a library.
func librarySettings(library string) []cluster.Setting {
	if library == "" {
		return nil
	}
	settings := []cluster.Setting{set("shared_preload_libraries", library)}
	if library == "pg_steno" {
		settings = append(settings, set("steno.log", "all"))
	}
	return settings
}

// dimensions are what was varied.
func dimensions(chosen []variant, ways []string) []result.Dimension {
	v := result.Dimension{Name: dimVariant, Title: "for each statement"}
	for _, c := range chosen {
		settings := append(librarySettings(c.library), c.session...)
		v.Values = append(v.Values, result.Value{Name: c.name, Title: c.title, Settings: settings})
	}
	w := result.Dimension{Name: dimWay, Title: "through"}
	for _, name := range ways {
		w.Values = append(w.Values, result.Value{Name: name, Title: findWay(name).title})
	}
	return []result.Dimension{w, v}
}
