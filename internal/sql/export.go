// Writes the records of a trail to a Parquet file or a DuckDB database.

package sql

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"

	duckdb "github.com/duckdb/duckdb-go-bindings"

	"github.com/pg-steno/pg_steno/internal/format"
)

// SchemaVersion is the version of the columns of exports. Columns may be added within a version; the meaning
// and the type of a column do not change.
const SchemaVersion = 1

// Key identifies a record. Keys are ordered as the records of a trail.
type Key struct {
	Time int64
	ID   format.RecordID
}

// Rows counts records, and has the keys of the first and the last one.
type Rows struct {
	Count       uint64
	First, Last Key
}

func (k *Key) before(o *Key) bool {
	return k.Time < o.Time || k.Time == o.Time && k.ID.Compare(o.ID) < 0
}

// Add counts a record.
func (r *Rows) Add(rec *format.Record) {
	r.Count++
	if r.Count > 1 && rec.Time > r.First.Time && rec.Time < r.Last.Time {
		return
	}
	k := Key{rec.Time, format.RecordID{Session: rec.Session.ID(), Seq: rec.Seq}}
	if r.Count == 1 || k.before(&r.First) {
		r.First = k
	}
	if r.Count == 1 || r.Last.before(&k) {
		r.Last = k
	}
}

// Merge adds the counts of others.
func (r *Rows) Merge(o *Rows) {
	switch {
	case o.Count == 0:
		return
	case r.Count == 0:
		*r = *o
		return
	}
	r.Count += o.Count
	if o.First.before(&r.First) {
		r.First = o.First
	}
	if r.Last.before(&o.Last) {
		r.Last = o.Last
	}
}

// addExportedRows adds the counts of a worker, and resets them.
func (db *DB) addExportedRows(r *Rows) {
	db.mu.Lock()
	defer db.mu.Unlock()
	if db.exportedRows != nil {
		db.exportedRows.Merge(r)
	}
	*r = Rows{}
}

// ExportColumns returns the columns of an export: those of the table trail except duration, which duration_us
// has in a type that every reader of Parquet knows.
func ExportColumns() (all []Column) {
	for _, c := range trailColumns {
		if c.Name != "duration" {
			all = append(all, c)
		}
	}
	return all
}

// unknownName is the error for a value without a name, which a newer server has written. Then records cannot be
// written with ENUMs.
const unknownName = "a name is not known"

// knownNames returns the names of all numbers that have one.
func knownNames(of func(n int) string) (names []string) {
	for n := range 64 {
		if name := of(n); !strings.HasSuffix(name, fmt.Sprintf("_%d", n)) {
			names = append(names, name)
		}
	}
	return names
}

// enumColumns returns the columns of trail with ENUMs for names that the program chooses. Parquet files have
// strings in both cases, but DuckDB does not have to build dictionaries for ENUMs.
func enumColumns() []Column {
	access := listOf(enumOf(knownNames(func(n int) string { return strings.Join(accessNames(1<<n), "") })))
	relation := structOf(slices.Clone(relationType.Fields)...)
	relation.Fields[1].Type = enumOf(knownNames(func(n int) string { return format.RelationType(n).String() }))
	relation.Fields[2].Type, relation.Fields[4].Type = access, access
	relation.Fields[3].Type = listOf(structOf(columnType.Fields[0], Field{"access", access}))
	object := structOf(slices.Clone(objectType.Fields)...)
	object.Fields[2].Type = enumOf(knownNames(func(n int) string { return format.Action(n).String() }))
	types := map[string]*Type{
		"kind":      enumOf(knownNames(func(n int) string { return format.Kind(n).String() })),
		"class":     enumOf(knownNames(func(n int) string { return format.Class(n).String() })),
		"outcome":   enumOf(knownNames(func(n int) string { return format.Outcome(n).String() })),
		"audited":   listOf(enumOf(format.Reasons())),
		"relations": listOf(relation),
		"objects":   listOf(object),
	}
	all := slices.Clone(trailColumns)
	for i := range all {
		if t := types[all[i].Name]; t != nil {
			all[i].Type = t
		}
	}
	return all
}

var link = regexp.MustCompile(`\[([^]]*)\]\([^)]*\)`)

// Description returns what a column means, without markup.
func (c *Column) Description() string {
	return strings.ReplaceAll(link.ReplaceAllString(c.Doc, "$1"), "`", "")
}

// exportQuery returns the query that selects all columns of the records of a range of times.
func exportQuery(function string, since, until int64) string {
	var names []string
	for _, c := range ExportColumns() {
		names = append(names, identifier(c.Name))
	}
	conditions, _ := json.Marshal(condition{Since: &since, Until: &until})
	return fmt.Sprintf("SELECT %s FROM %s(%s)", strings.Join(names, ", "), function, quoted(string(conditions)))
}

// metadata returns the metadata of a Parquet file, which describe the columns.
func metadata() string {
	type column struct {
		Name        string `json:"name"`
		Type        string `json:"type"`
		Description string `json:"description"`
	}
	var all []column
	for _, c := range ExportColumns() {
		all = append(all, column{c.Name, c.Type.String(), c.Description()})
	}
	text, _ := json.Marshal(all)
	return fmt.Sprintf("{'pg_steno.schema': '%d', 'pg_steno.columns': %s}", SchemaVersion, quoted(string(text)))
}

// Rows and bytes of a row group of a Parquet file. Each thread builds one in memory. Smaller groups make the
// file larger, and groups of 40960 rows make it largest, because DuckDB derives the sizes of dictionaries from
// the number of rows.
const (
	rowGroup      = 20480
	rowGroupBytes = "32MB"
)

// ExportParquet writes the records of a range of times, unordered, to an existing file.
func (db *DB) ExportParquet(ctx context.Context, path, compression string, since, until int64) (Rows, error) {
	defer db.warnIncomplete(ctx)
	write := func(function string) (Rows, error) {
		return db.execCounting(ctx,
			fmt.Sprintf("COPY (%s) TO %s (FORMAT parquet, COMPRESSION %s, ROW_GROUP_SIZE %d, ROW_GROUP_SIZE_BYTES "+
				"'%s', USE_TMP_FILE false, KV_METADATA %s)",
				exportQuery(function, since, until), quoted(path), compression, rowGroup, rowGroupBytes, metadata()))
	}
	rows, err := write("steno_export")
	if err != nil && strings.Contains(err.Error(), unknownName) {
		rows, err = write("steno_trail")
	}
	if err != nil {
		return rows, err
	}
	n, err := db.queryString("SELECT CAST(num_rows AS VARCHAR) FROM parquet_file_metadata($1)", path)
	if err == nil && n != fmt.Sprint(rows.Count) {
		err = fmt.Errorf("%s has %s rows of %d", path, n, rows.Count)
	}
	return rows, err
}

// ExportDatabase writes the records of a range of times to the table trail of a new database.
func (db *DB) ExportDatabase(ctx context.Context, path string, since, until int64) (rows Rows, err error) {
	defer db.warnIncomplete(ctx)
	statements := []string{fmt.Sprintf("ATTACH %s AS exported (TYPE duckdb)", quoted(path)),
		"CREATE TABLE exported.trail AS " + exportQuery("steno_trail", since, until)}
	for _, c := range ExportColumns() {
		statements = append(statements,
			fmt.Sprintf("COMMENT ON COLUMN exported.trail.%s IS %s", identifier(c.Name), quoted(c.Description())))
	}
	for i, s := range append(statements, "CHECKPOINT exported", "DETACH exported") {
		counted, err := db.execCounting(ctx, s)
		if i == 1 {
			rows = counted
		}
		if err != nil {
			return rows, err
		}
	}
	return rows, nil
}

// execCounting executes one of the program's own statements, and counts the records that it reads.
func (db *DB) execCounting(ctx context.Context, statement string) (Rows, error) {
	db.mu.Lock()
	rows := &Rows{}
	db.ctx, db.scans, db.exportedRows = ctx, nil, rows
	db.mu.Unlock()
	defer func() {
		db.mu.Lock()
		defer db.mu.Unlock()
		db.exportedRows = nil
	}()
	var prepared duckdb.PreparedStatement
	defer duckdb.DestroyPrepare(&prepared)
	if duckdb.Prepare(db.conn, statement, &prepared) == duckdb.StateError {
		return Rows{}, db.refusal(duckdb.PrepareError(prepared))
	}
	err := db.execute(ctx, prepared, func(r *Result) error {
		for {
			if more, err := r.Next(); err != nil || !more {
				return err
			}
		}
	})
	db.mu.Lock()
	defer db.mu.Unlock()
	return *rows, err
}
