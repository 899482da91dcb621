// The variants of overhead, and the settings that all servers have.

package bench

import (
	"fmt"
	"strings"

	"github.com/pg-steno/pg_steno/lab/cluster"
)

// A variant is one way to record, or not to record, what a server does.
type variant struct {
	name     string // on the command line
	title    string // in tables
	library  string // that must be installed
	output   output
	settings []cluster.Setting
}

// output is where a variant writes its records.
type output int

const (
	nothing output = iota
	serverLog
	trail
)

var variants = []variant{
	{name: "off", title: "off"},
	{name: "log_statement", title: "log_statement=all", output: serverLog, settings: []cluster.Setting{
		{Name: "log_statement", Value: "all"},
	}},
	{name: "log_duration", title: "log_statement=all, log_duration", output: serverLog, settings: []cluster.Setting{
		{Name: "log_statement", Value: "all"},
		{Name: "log_duration", Value: "on"},
	}},
	{name: "csvlog", title: "log_statement=all, csvlog", output: serverLog, settings: []cluster.Setting{
		{Name: "log_statement", Value: "all"},
		{Name: "log_destination", Value: "csvlog"},
	}},
	{name: "jsonlog", title: "log_statement=all, jsonlog", output: serverLog, settings: []cluster.Setting{
		{Name: "log_statement", Value: "all"},
		{Name: "log_destination", Value: "jsonlog"},
	}},
	{name: "pgaudit", title: "pgaudit", library: "pgaudit", output: serverLog, settings: []cluster.Setting{
		{Name: "shared_preload_libraries", Value: "pgaudit"},
		{Name: "pgaudit.log", Value: "all"},
		{Name: "pgaudit.log_parameter", Value: "on"},
	}},
	{name: "steno", title: "pg_steno", library: "pg_steno", output: trail, settings: []cluster.Setting{
		{Name: "shared_preload_libraries", Value: "pg_steno"},
		{Name: "steno.log", Value: "all"},
	}},
	{name: "steno_uncompressed", title: "pg_steno, uncompressed", library: "pg_steno", output: trail,
		settings: []cluster.Setting{
			{Name: "shared_preload_libraries", Value: "pg_steno"},
			{Name: "steno.log", Value: "all"},
			{Name: "steno.compression", Value: "none"},
		}},
	{name: "steno_sealed", title: "pg_steno, sealed and encrypted", library: "pg_steno", output: trail,
		settings: []cluster.Setting{
			{Name: "shared_preload_libraries", Value: "pg_steno"},
			{Name: "steno.log", Value: "all"},
			{Name: "steno.signing_key_file", Value: sealKey},
			{Name: "steno.seal_interval", Value: "1s"},
			{Name: "steno.encryption_key_command", Value: "printf '%064d' 1"},
		}},
	{name: "steno_sync", title: "pg_steno, steno.sync=write,ddl,role", library: "pg_steno", output: trail,
		settings: []cluster.Setting{
			{Name: "shared_preload_libraries", Value: "pg_steno"},
			{Name: "steno.log", Value: "all"},
			{Name: "steno.sync", Value: "write, ddl, role"},
		}},
	{name: "steno_sync_commit", title: "pg_steno, steno.sync=write,ddl,role, sync_start=off", library: "pg_steno",
		output: trail, settings: []cluster.Setting{
			{Name: "shared_preload_libraries", Value: "pg_steno"},
			{Name: "steno.log", Value: "all"},
			{Name: "steno.sync", Value: "write, ddl, role"},
			{Name: "steno.sync_start", Value: "off"},
		}},
	{name: "steno_less", title: "pg_steno, no transaction, start and mandatory records", library: "pg_steno",
		output: trail,
		settings: []cluster.Setting{
			{Name: "shared_preload_libraries", Value: "pg_steno"},
			{Name: "steno.log", Value: "all, -transaction"},
			{Name: "steno.mandatory", Value: ""},
			{Name: "steno.start_after", Value: "-1"},
		}},
	{name: "steno_none", title: "pg_steno, steno.log=none", library: "pg_steno", output: trail,
		settings: []cluster.Setting{
			{Name: "shared_preload_libraries", Value: "pg_steno"},
			{Name: "steno.log", Value: "none"},
		}},
}

// BaseSettings are every server's. What would disturb a slice of one server
// with work of another is off: vacuum, checkpoints by time. Statements go
// through the logging collector as on a server that keeps its log.
var BaseSettings = []cluster.Setting{
	{Name: "max_connections", Value: "100"},
	{Name: "shared_buffers", Value: "256MB"},
	{Name: "fsync", Value: "on"},
	{Name: "synchronous_commit", Value: "on"},
	{Name: "autovacuum", Value: "off"},
	{Name: "checkpoint_timeout", Value: "1h"},
	{Name: "max_wal_size", Value: "8GB"},
	{Name: "logging_collector", Value: "on"},
	{Name: "log_directory", Value: "log"},
	{Name: "log_filename", Value: "postgresql"},
	{Name: "log_line_prefix", Value: "%m [%p] %q%u@%d "},
	{Name: "log_rotation_size", Value: "0"},
	{Name: "log_rotation_age", Value: "0"},
	{Name: "log_checkpoints", Value: "off"},
}

// VariantNames are what can be compared.
func VariantNames() []string {
	var names []string
	for _, v := range variants {
		names = append(names, v.name)
	}
	return names
}

// findVariant returns the variant of that name, which must be installed.
func findVariant(name string, installation *cluster.Installation) (variant, error) {
	for _, v := range variants {
		if v.name != name {
			continue
		}
		if v.library != "" && !installation.HasLibrary(v.library) {
			return v, fmt.Errorf("cannot measure \"%s\": no %s.so in \"%s\"", name, v.library, installation.LibraryDir)
		}
		return v, nil
	}
	return variant{}, fmt.Errorf("no variant \"%s\"; there are %s", name, strings.Join(VariantNames(), ", "))
}
