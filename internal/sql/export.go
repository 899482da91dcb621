// Writes the records of a trail to a Parquet file or a database of DuckDB's.

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

// SchemaVersion is that of the columns that exports have. Columns may be added to a version;
// what a column means, and its type, does not change.
const SchemaVersion = 1

// Key names a record, in the order of the records of a trail.
type Key struct {
	Time int64
	ID   format.RecordID
}

// Rows counts records, and knows the first and the last of them.
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

// Join adds what others have counted.
func (r *Rows) Join(o *Rows) {
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

// count takes what a worker has counted.
func (db *DB) count(r *Rows) {
	db.mu.Lock()
	defer db.mu.Unlock()
	if db.rows != nil {
		db.rows.Join(r)
	}
	*r = Rows{}
}

// ExportColumns are the columns of an export: those of the table trail but duration, of which
// duration_us says the same in a type that every reader of Parquet has.
func ExportColumns() (all []Column) {
	for _, c := range trailColumns {
		if c.Name != "duration" {
			all = append(all, c)
		}
	}
	return all
}

// unknownName is why records cannot be written with ENUMs: a newer server has used a number that
// this program has no name for.
const unknownName = "a name is not known"

// known are the names of the numbers that have one.
func known(of func(n int) string) (names []string) {
	for n := range 64 {
		if name := of(n); !strings.HasSuffix(name, fmt.Sprintf("_%d", n)) {
			names = append(names, name)
		}
	}
	return names
}

// enumColumns are the columns of trail in which names that the program chooses are ENUMs. Parquet
// has strings in both cases; but no dictionaries have to be made of these.
func enumColumns() []Column {
	access := listOf(enumOf(known(func(n int) string { return strings.Join(accessNames(1<<n), "") })))
	relation := structOf(slices.Clone(relationType.Fields)...)
	relation.Fields[1].Type = enumOf(known(func(n int) string { return format.RelationType(n).String() }))
	relation.Fields[2].Type, relation.Fields[4].Type = access, access
	relation.Fields[3].Type = listOf(structOf(columnType.Fields[0], Field{"access", access}))
	object := structOf(slices.Clone(objectType.Fields)...)
	object.Fields[2].Type = enumOf(known(func(n int) string { return format.Action(n).String() }))
	types := map[string]*Type{
		"kind":      enumOf(known(func(n int) string { return format.Kind(n).String() })),
		"class":     enumOf(known(func(n int) string { return format.Class(n).String() })),
		"outcome":   enumOf(known(func(n int) string { return format.Outcome(n).String() })),
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

// Description says what a column means, without markup.
func (c *Column) Description() string {
	return strings.ReplaceAll(link.ReplaceAllString(c.Doc, "$1"), "`", "")
}

// exported are the names of the columns, and where they come from.
func exported(function string, since, until int64) string {
	var names []string
	for _, c := range ExportColumns() {
		names = append(names, identifier(c.Name))
	}
	conditions, _ := json.Marshal(condition{Since: &since, Until: &until})
	return fmt.Sprintf("SELECT %s FROM %s(%s)", strings.Join(names, ", "), function, quoted(string(conditions)))
}

// metadata describes the columns in a Parquet file.
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

// Rows and bytes in a group of a Parquet file: each thread has one in memory while it is made.
// Smaller ones take more of the file, those of 40960 rows the most, because the sizes of
// dictionaries follow from them.
const (
	rowGroup      = 20480
	rowGroupBytes = "32MB"
)

// ExportParquet writes the records of a range of times to an existing file, in no order.
func (db *DB) ExportParquet(ctx context.Context, path, compression string, since, until int64) (Rows, error) {
	defer db.tellHidden(ctx)
	write := func(function string) (Rows, error) {
		return db.export(ctx, fmt.Sprintf("COPY (%s) TO %s (FORMAT parquet, COMPRESSION %s, ROW_GROUP_SIZE %d, ROW_GROUP_SIZE_BYTES '%s', USE_TMP_FILE false, KV_METADATA %s)",
			exported(function, since, until), quoted(path), compression, rowGroup, rowGroupBytes, metadata()))
	}
	rows, err := write("steno_export")
	if err != nil && strings.Contains(err.Error(), unknownName) {
		rows, err = write("steno_trail")
	}
	if err != nil {
		return rows, err
	}
	n, err := db.scalar("SELECT CAST(num_rows AS VARCHAR) FROM parquet_file_metadata($1)", path)
	if err == nil && n != fmt.Sprint(rows.Count) {
		err = fmt.Errorf("%s has %s rows of %d", path, n, rows.Count)
	}
	return rows, err
}

// ExportDatabase writes the records of a range of times to the table trail of a new database.
func (db *DB) ExportDatabase(ctx context.Context, path string, since, until int64) (rows Rows, err error) {
	defer db.tellHidden(ctx)
	statements := []string{fmt.Sprintf("ATTACH %s AS exported (TYPE duckdb)", quoted(path)), "CREATE TABLE exported.trail AS " + exported("steno_trail", since, until)}
	for _, c := range ExportColumns() {
		statements = append(statements, fmt.Sprintf("COMMENT ON COLUMN exported.trail.%s IS %s", identifier(c.Name), quoted(c.Description())))
	}
	for i, s := range append(statements, "CHECKPOINT exported", "DETACH exported") {
		one, err := db.export(ctx, s)
		if i == 1 {
			rows = one
		}
		if err != nil {
			return rows, err
		}
	}
	return rows, nil
}

// export executes a statement of the program's own, and counts the records that it reads.
func (db *DB) export(ctx context.Context, statement string) (Rows, error) {
	db.mu.Lock()
	rows := &Rows{}
	db.ctx, db.used, db.rows = ctx, nil, rows
	db.mu.Unlock()
	defer func() {
		db.mu.Lock()
		defer db.mu.Unlock()
		db.rows = nil
	}()
	var prepared duckdb.PreparedStatement
	defer duckdb.DestroyPrepare(&prepared)
	if duckdb.Prepare(db.conn, statement, &prepared) == duckdb.StateError {
		return Rows{}, db.error(duckdb.PrepareError(prepared))
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
