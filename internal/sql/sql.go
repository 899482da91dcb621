// Package sql answers questions about a trail in SQL, with DuckDB, which is part of the program.
//
// In the order in which a statement passes them:
//
//	tables.go      the tables and views
//	pushdown.go    finds the conditions on the records of each table
//	headings.go    gives unnamed columns the names that PostgreSQL would give them
//	asked.go       finds the names that the statement compares columns with
//	conditions.go  skips blocks and records that do not match the conditions
//	scan.go        the table functions that DuckDB calls
//	columns.go     the columns, and how a record sets them; types.go: their types
//	vector.go      DuckDB's vectors
//	value.go       the values of a result
//	export.go      all records as a Parquet file or a database
//	output.go      a result as CSV, JSON or Markdown; table.go: as a table, or one line for each value
//
// It reads the trail with packages trail and query; only programs that import this package link DuckDB.
// Two things must stay true. Statements read and write no other files than the trail and those that Options
// name, unless Options allow it. And what is skipped never changes an answer: DuckDB evaluates all conditions
// itself.
package sql

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	duckdb "github.com/duckdb/duckdb-go-bindings"

	"github.com/pg-steno/pg_steno/internal/format"
	"github.com/pg-steno/pg_steno/internal/proof"
	"github.com/pg-steno/pg_steno/internal/query"
	"github.com/pg-steno/pg_steno/internal/trail"
)

// File is a Parquet file that statements can read as a table.
type File struct{ Name, Path string }

// NewFile returns a file whose table has the file's base name without the extension.
func NewFile(path string) File {
	return File{strings.TrimSuffix(filepath.Base(path), filepath.Ext(path)), path}
}

// Options say what a database is made of, and what its statements may do.
type Options struct {
	// Index returns the index of the trail as it is now. It is called before each statement.
	Index func() (*trail.Index, error)
	// Since and Until bound the records' times.
	Since, Until int64
	// Files are Parquet files that are tables.
	Files []File
	// Writable is a file that Export may write; empty: none.
	Writable string
	// AllowFiles allows statements to read and write any file.
	AllowFiles bool
	// MemoryLimit is DuckDB's memory_limit, such as 1GiB.
	MemoryLimit string
	// MaxThreads is the largest number of threads that work on a statement; 0: one for each processor.
	MaxThreads int
	// TempDirectory is where DuckDB puts what does not fit into memory; empty: nowhere.
	TempDirectory string
	// Filter chooses records of all tables, and Blocks chooses blocks; nil: all.
	Filter *query.Filter
	Blocks func(*trail.BlockRef) bool
	// Location is the time zone in which statements show and interpret times.
	Location *time.Location
	// Warn receives what is wrong in the trail, each thing once. It is called by one goroutine at a time.
	Warn func(error)
}

func (o *Options) threads() int {
	n := runtime.GOMAXPROCS(0)
	if o.MaxThreads > 0 {
		n = min(n, o.MaxThreads)
	}
	return n
}

// DB is a database whose tables are read from a trail. Only one goroutine may use it.
type DB struct {
	options       Options
	database      duckdb.Database
	conn          duckdb.Connection
	prepared      map[string]duckdb.PreparedStatement // statements of queryString, by their text
	failure       failure
	fresh         bool        // no statement has used the index yet, so it need not be refreshed
	definesTables bool        // a statement may have created tables that hide ours
	headings      [][]heading // of the columns of the current statements

	mu            sync.Mutex // protects what follows, which DuckDB's threads use
	ctx           context.Context
	index         *trail.Index
	serversOnce   func() *trail.Servers // the servers of the index, found at the first call
	warned        map[string]bool
	warnedOmitted bool // the warning about omitted names was given

	// What statements are warned of at their end: records that the filter may miss, and statements whose
	// relations are not known.
	hiddenByFilter, withoutNames query.Hidden
	comparedNames                *query.Names     // names that the last statement compares columns with; nil: none
	needs                        proof.Needs      // what else answers of the last statement depend on
	renameFilters                []*query.Filter  // filters that find renames of these names
	lookalikes                   query.Lookalikes // names in answers that look like each other
	scans                        []TableScan
	exportedRows                 *Rows // counts the records of an export; nil: no export is running
}

// TableScan says what one use of a table in a statement has read.
type TableScan struct {
	Table      string
	Conditions string // passed down from the statement, as JSON
	trail.ScanStats
}

// Open makes a database.
func Open(o Options) (*DB, error) {
	db := &DB{
		options:  o,
		prepared: map[string]duckdb.PreparedStatement{},
		warned:   map[string]bool{},
		ctx:      context.Background(),
	}
	var config duckdb.Config
	duckdb.CreateConfig(&config)
	defer duckdb.DestroyConfig(&config)
	settings := [][2]string{
		{"autoinstall_known_extensions", "false"},
		{"autoload_known_extensions", "false"},
		{"allow_community_extensions", "false"},
		{"allow_persistent_secrets", "false"},
		{"preserve_insertion_order", "false"},
		{"threads", strconv.Itoa(o.threads())},
		{"memory_limit", o.MemoryLimit},
		{"temp_directory", o.TempDirectory},
	}
	for _, s := range settings {
		if duckdb.SetConfig(config, s[0], s[1]) == duckdb.StateError {
			return nil, &Error{fmt.Sprintf("invalid value for %s: %q", s[0], s[1])}
		}
	}
	var message string
	if duckdb.OpenExt(":memory:", &db.database, config, &message) == duckdb.StateError {
		return nil, errors.New(reason(message))
	}
	if duckdb.Connect(db.database, &db.conn) == duckdb.StateError {
		db.Close()
		return nil, errors.New("could not connect to DuckDB")
	}
	if err := db.setUp(); err != nil {
		db.Close()
		return nil, err
	}
	return db, nil
}

// Close ends the database.
func (db *DB) Close() {
	for _, prepared := range db.prepared {
		duckdb.DestroyPrepare(&prepared)
	}
	clear(db.prepared)
	if db.conn.Ptr != nil {
		duckdb.Disconnect(&db.conn)
	}
	duckdb.Close(&db.database)
}

func (db *DB) setUp() error {
	for _, s := range db.sources() {
		if err := s.register(db.conn); err != nil {
			return err
		}
	}
	index, err := db.options.Index()
	if err != nil {
		return err
	}
	db.setIndex(index)
	db.fresh = true
	statements := definitions()
	if db.options.Since > format.MinTime {
		statements[0] = fmt.Sprintf("CREATE MACRO steno_since() AS make_timestamptz(%d)", db.options.Since+epoch)
	}
	statements = append(statements, "SET TimeZone = "+quoted(db.options.Location.String()))
	var allowed []string
	for _, f := range db.options.Files {
		allowed = append(allowed, f.Path)
	}
	if db.options.Writable != "" {
		allowed = append(allowed, db.options.Writable)
	}
	for i, path := range allowed {
		if allowed[i], err = filepath.Abs(path); err != nil {
			return err
		}
		allowed[i] = quoted(allowed[i])
	}
	for i, f := range db.options.Files {
		isSame := func(g File) bool { return strings.EqualFold(g.Name, f.Name) }
		if tableNamed(f.Name) != nil || slices.ContainsFunc(db.options.Files[:i], isSame) {
			return &Error{fmt.Sprintf("%s: there is a table %s already: use another name, NAME=%s",
				f.Path, f.Name, f.Path)}
		}
		statements = append(statements,
			fmt.Sprintf("CREATE VIEW %s AS SELECT * FROM read_parquet(%s)", identifier(f.Name), allowed[i]))
	}
	if !db.options.AllowFiles {
		statements = append(statements, fmt.Sprintf("SET allowed_paths = [%s]", strings.Join(allowed, ", ")),
			"SET enable_external_access = false", "SET lock_configuration = true")
	}
	for _, s := range statements {
		if err := db.exec(s); err != nil {
			return err
		}
	}
	return nil
}

// quoted returns a string literal of SQL, identifier a quoted name.
func quoted(s string) string     { return "'" + strings.ReplaceAll(s, "'", "''") + "'" }
func identifier(s string) string { return `"` + strings.ReplaceAll(s, `"`, `""`) + `"` }

// reason returns DuckDB's message without the trailing newline.
func reason(message string) string {
	return strings.TrimRight(message, "\n")
}

// exec executes one of the program's own statements.
func (db *DB) exec(statement string) error {
	var result duckdb.Result
	state := duckdb.Query(db.conn, statement, &result)
	defer duckdb.DestroyResult(&result)
	if state == duckdb.StateError {
		return errors.New(reason(duckdb.ResultError(&result)))
	}
	return nil
}

// queryString executes one of the program's own statements with strings as parameters, and returns its only
// value, a string. There are few different statements with parameters, so each is prepared once and kept.
func (db *DB) queryString(statement string, args ...string) (value string, err error) {
	prepared, ok := db.prepared[statement]
	if !ok {
		state := duckdb.Prepare(db.conn, statement, &prepared)
		if state == duckdb.StateError || len(args) == 0 {
			defer duckdb.DestroyPrepare(&prepared)
		} else {
			db.prepared[statement] = prepared
		}
		if state == duckdb.StateError {
			return "", errors.New(reason(duckdb.PrepareError(prepared)))
		}
	}
	for i, a := range args {
		if duckdb.BindVarchar(prepared, duckdb.IdxT(i+1), a) == duckdb.StateError {
			return "", errors.New("could not bind a parameter")
		}
	}
	var result duckdb.Result
	state := duckdb.ExecutePrepared(prepared, &result)
	defer duckdb.DestroyResult(&result)
	if state == duckdb.StateError {
		return "", errors.New(reason(duckdb.ResultError(&result)))
	}
	chunk := duckdb.FetchChunk(result)
	if chunk.Ptr == nil {
		return "", errors.New("no value")
	}
	defer duckdb.DestroyDataChunk(&chunk)
	v := duckdb.DataChunkGetVector(chunk, 0)
	if valid := duckdb.VectorGetValidity(v); valid != nil && !duckdb.ValidityRowIsValid(valid, 0) {
		return "", errors.New("NULL")
	}
	return duckdb.StringTData((*duckdb.StringT)(duckdb.VectorGetData(v))), nil
}

// approximateRecords returns about how many records the trail has.
func (db *DB) approximateRecords() (n uint64) {
	db.mu.Lock()
	defer db.mu.Unlock()
	for i := range db.index.Streams {
		for k := range db.index.Streams[i].Segments {
			n += db.index.Streams[i].Segments[k].Records
		}
	}
	return n
}

func (db *DB) setIndex(index *trail.Index) {
	db.mu.Lock()
	defer db.mu.Unlock()
	db.index, db.serversOnce = index, sync.OnceValue(index.Servers)
}

// servers returns the servers that recorded the trail.
func (db *DB) servers() *trail.Servers {
	db.mu.Lock()
	hosts := db.serversOnce
	db.mu.Unlock()
	return hosts()
}

// intersection selects what both functions select; nil selects all.
func intersection(a, b func(*format.Contents) format.Groups) func(*format.Contents) format.Groups {
	switch {
	case a == nil:
		return b
	case b == nil:
		return a
	}
	return func(c *format.Contents) format.Groups {
		g := a(c)
		g.And(b(c))
		return g
	}
}

// scan starts to read a table.
func (db *DB) scan(s *scanning) *trail.Scan {
	db.mu.Lock()
	index, ctx := db.index, db.ctx
	s.comparedNames = db.comparedNames
	s.countRows = db.exportedRows != nil && s.level == perRecord
	db.mu.Unlock()
	needs := s.needs
	o := trail.ScanOptions{
		Selection: s.conditions.wanted(),
		Parts:     needs&(needsParts|needsNames) != 0,
		Raw:       needs&needsTexts == 0,
		Rollbacks: needs&needsRollbacks != 0,
		Blocks:    db.options.Blocks,
		Contents:  s.conditions.contents(),
		Warn:      db.warn,
	}
	if !s.countRows {
		o.Selection.Fields = s.fields
	}
	if f := db.options.Filter; f != nil {
		o.Parts, o.Raw = true, false // the filter may need any part of a record
		o.Contents = intersection(o.Contents, f.Contents())
	}
	o.Since, o.Until = s.conditions.bounds(db.options.Since, db.options.Until)
	return index.Scan(ctx, o)
}

// warnOmitted warns, once, that not all names of relations and objects are known.
func (db *DB) warnOmitted(r *format.Record, why string) {
	db.warnOmittedOnce(&query.OmittedError{First: format.RecordID{Session: r.Session.ID(), Seq: r.Seq}, Why: why})
}

func (db *DB) warnOmittedOnce(err *query.OmittedError) {
	db.mu.Lock()
	defer db.mu.Unlock()
	if !db.warnedOmitted {
		db.warnedOmitted = true
		db.options.Warn(err)
	}
}

// warnIncomplete warns of what answers may lack.
func (db *DB) warnIncomplete(ctx context.Context) {
	db.mu.Lock()
	index, names, needs, changing := db.index, db.comparedNames, db.needs, db.renameFilters
	db.mu.Unlock()
	if index != nil {
		for _, warning := range proof.FindOmissions(ctx, index, db.options.Since, db.options.Until, needs) {
			db.warn(warning)
		}
		db.warnOfRenames(ctx, index, changing)
	}
	for _, warning := range names.Search(ctx, index) {
		db.warn(warning)
	}
	for _, warning := range db.lookalikes.Errs() {
		db.warn(warning)
	}
	db.hiddenByFilter.DropEnded(ctx, index)
	for _, err := range db.hiddenByFilter.Errs() {
		db.warn(err)
	}
	db.withoutNames.DropEnded(ctx, index)
	for _, err := range db.withoutNames.Errs() {
		if omitted := (*query.OmittedError)(nil); errors.As(err, &omitted) {
			omitted.Count = 0 // it is not known which of them a statement in SQL asks for
			db.warnOmittedOnce(omitted)
		}
	}
}

// warn passes on a warning, unless the same one was passed on before.
func (db *DB) warn(err error) {
	db.mu.Lock()
	defer db.mu.Unlock()
	if text := err.Error(); !db.warned[text] {
		db.warned[text] = true
		db.options.Warn(err)
	}
}

// ended notes what a scanning has read.
func (db *DB) ended(s *scanning) {
	db.mu.Lock()
	defer db.mu.Unlock()
	name := strings.TrimPrefix(s.name, functionPrefix)
	db.scans = append(db.scans, TableScan{name, s.conditions.String(), s.scan.Stats()})
}

// TableScans returns what the last statement has read.
func (db *DB) TableScans() []TableScan {
	db.mu.Lock()
	defer db.mu.Unlock()
	return slices.Clone(db.scans)
}

// Run executes statements, one after the other, and calls show with the result of each that returns rows. It
// returns soon after its context ends.
func (db *DB) Run(ctx context.Context, statements string, show func(*Result) error) error {
	defer db.warnIncomplete(ctx)
	if changed, ok := db.pushDown(ctx, statements); ok {
		if err := db.run(ctx, changed, statements, show); !errors.Is(err, errNotPrepared) {
			return err
		}
	}
	return db.run(ctx, statements, "", show)
}

// pushDown refreshes the index of the trail, and returns the statements with conditions passed down.
func (db *DB) pushDown(ctx context.Context, statements string) (changed string, ok bool) {
	db.mu.Lock()
	db.ctx, db.scans, db.comparedNames, db.renameFilters, db.needs = ctx, nil, nil, nil, proof.Needs{}
	db.mu.Unlock()
	if db.fresh {
		db.fresh = false
	} else if index, err := db.options.Index(); err == nil {
		db.setIndex(index)
	} else {
		db.warn(err)
	}
	tree := db.parse(statements)
	db.headings = db.headingsOf(tree, statements)
	if tree == nil || db.definesTables {
		return "", false
	}
	return db.push(tree)
}

// errNotPrepared says that DuckDB refuses the changed statements, and that none of them was executed.
var errNotPrepared = errors.New("not prepared")

// run executes statements. If these were changed, original has them as they were before.
func (db *DB) run(ctx context.Context, statements, original string, show func(*Result) error) error {
	var extracted duckdb.ExtractedStatements
	n := duckdb.ExtractStatements(db.conn, statements, &extracted)
	defer duckdb.DestroyExtracted(&extracted)
	if n == 0 {
		message := duckdb.ExtractStatementsError(extracted)
		if message == "" {
			return nil // a comment
		}
		return db.refusal(message)
	}
	for i := range n {
		if err := db.runStatement(ctx, extracted, i, original, show); err != nil {
			return err
		}
	}
	return nil
}

// showsChanges returns whether the name of a column reveals a change of the statement, because it is the text
// of a changed expression.
func showsChanges(name string) bool { return strings.Contains(name, functionPrefix) }

// columnNamesOf returns the names of the columns of the i-th statement.
func (db *DB) columnNamesOf(statements string, i duckdb.IdxT) []string {
	var extracted duckdb.ExtractedStatements
	n := duckdb.ExtractStatements(db.conn, statements, &extracted)
	defer duckdb.DestroyExtracted(&extracted)
	if i >= n {
		return nil
	}
	var prepared duckdb.PreparedStatement
	defer duckdb.DestroyPrepare(&prepared)
	if duckdb.PrepareExtractedStatement(db.conn, extracted, i, &prepared) == duckdb.StateError {
		return nil
	}
	return columnNames(prepared)
}

func columnNames(prepared duckdb.PreparedStatement) (all []string) {
	for k := range duckdb.PreparedStatementColumnCount(prepared) {
		all = append(all, duckdb.PreparedStatementColumnName(prepared, k))
	}
	return all
}

// Error says why a statement, or the name of a file, is refused.
type Error struct{ Message string }

func (e *Error) Error() string { return e.Message }

// ErrNeedsFiles is the error for statements that read or write files.
var ErrNeedsFiles = &Error{"COPY, EXPORT, ATTACH, LOAD and PRAGMA are refused, because SQL may not use files"}

func (db *DB) refusal(message string) error { return &Error{reason(message)} }

func (db *DB) runStatement(
	ctx context.Context, all duckdb.ExtractedStatements, i duckdb.IdxT, original string, show func(*Result) error,
) error {
	var prepared duckdb.PreparedStatement
	defer duckdb.DestroyPrepare(&prepared)
	if duckdb.PrepareExtractedStatement(db.conn, all, i, &prepared) == duckdb.StateError {
		if original != "" && i == 0 {
			return errNotPrepared
		}
		return db.refusal(duckdb.PrepareError(prepared))
	}
	var names []string
	if original != "" && slices.ContainsFunc(columnNames(prepared), showsChanges) {
		names = db.columnNamesOf(original, i)
	}
	if !db.options.AllowFiles {
		switch duckdb.PreparedStatementType(prepared) {
		case duckdb.StatementTypeCopy, duckdb.StatementTypeExport, duckdb.StatementTypeAttach,
			duckdb.StatementTypeLoad, duckdb.StatementTypeCopyDatabase, duckdb.StatementTypePragma:
			return ErrNeedsFiles
		}
	}
	switch duckdb.PreparedStatementType(prepared) {
	case duckdb.StatementTypeSelect, duckdb.StatementTypeExplain:
	default:
		db.definesTables = true
	}
	err := db.execute(ctx, prepared, func(r *Result) error {
		for k := range min(len(names), len(r.Columns)) {
			r.Columns[k].Name = names[k]
		}
		if int(i) < len(db.headings) {
			applyHeadings(db.headings[i], r.Columns)
		}
		return show(r)
	})
	if original != "" {
		return withoutLine(err)
	}
	return err
}

// withoutLine removes from an error the line that DuckDB shows of the statement, because the user has not
// written it that way.
func withoutLine(err error) error {
	if refused := (*Error)(nil); errors.As(err, &refused) {
		refused.Message, _, _ = strings.Cut(refused.Message, "\n\nLINE ")
	}
	return err
}

// execute executes a prepared statement.
func (db *DB) execute(ctx context.Context, prepared duckdb.PreparedStatement, show func(*Result) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	// DuckDB forgets an interruption that arrives before the execution begins, so it is repeated.
	ended := make(chan struct{})
	var watcher sync.WaitGroup
	defer watcher.Wait()
	defer close(ended)
	watcher.Go(func() {
		select {
		case <-ended:
			return
		case <-ctx.Done():
		}
		for {
			duckdb.Interrupt(db.conn)
			select {
			case <-ended:
				return
			case <-time.After(20 * time.Millisecond):
			}
		}
	})
	var pending duckdb.PendingResult
	defer duckdb.DestroyPending(&pending)
	if duckdb.PendingPreparedStreaming(prepared, &pending) == duckdb.StateError {
		return db.executionError(ctx, duckdb.PendingError(pending))
	}
	r := &Result{db: db, ctx: ctx}
	state := duckdb.ExecutePending(pending, &r.result)
	defer duckdb.DestroyResult(&r.result)
	if state == duckdb.StateError {
		return db.executionError(ctx, duckdb.ResultError(&r.result))
	}
	if duckdb.ResultReturnType(r.result) != duckdb.ResultTypeQueryResult {
		return nil
	}
	r.describe()
	defer r.close()
	return show(r)
}

// executionError returns the error of a statement that DuckDB did not finish.
func (db *DB) executionError(ctx context.Context, message string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return db.refusal(message)
}

// Export writes the result of a statement to the writable file, as Parquet.
func (db *DB) Export(ctx context.Context, statement string) error {
	path, err := filepath.Abs(db.options.Writable)
	if err != nil {
		return err
	}
	changed, ok := db.pushDown(ctx, statement)
	if !ok || slices.ContainsFunc(db.columnNamesOf(changed, 0), showsChanges) {
		changed = strings.TrimRight(strings.TrimSpace(statement), ";")
	}
	copying := fmt.Sprintf("COPY (%s\n) TO %s (FORMAT parquet, COMPRESSION zstd, USE_TMP_FILE false)",
		strings.TrimRight(strings.TrimSpace(changed), ";"), quoted(path))
	var prepared duckdb.PreparedStatement
	defer duckdb.DestroyPrepare(&prepared)
	if duckdb.Prepare(db.conn, copying, &prepared) == duckdb.StateError {
		return withoutLine(db.refusal(duckdb.PrepareError(prepared)))
	}
	return withoutLine(db.execute(ctx, prepared, func(r *Result) error {
		for {
			if more, err := r.Next(); err != nil || !more {
				return err
			}
		}
	}))
}
