// The table functions behind the tables trail, relations and columns. DuckDB calls them from its own threads.

package sql

/*
#include <stdint.h>
#include <stdlib.h>

void steno_bind(void *);
void steno_init(void *);
void steno_local_init(void *);
void steno_scan(void *, void *);
void steno_delete(void *);
*/
import "C"

import (
	"fmt"
	"runtime"
	"runtime/cgo"
	"slices"
	"sync/atomic"
	"unsafe"

	duckdb "github.com/duckdb/duckdb-go-bindings"

	"github.com/pg-steno/pg_steno/internal/format"
	"github.com/pg-steno/pg_steno/internal/query"
	"github.com/pg-steno/pg_steno/internal/trail"
)

// level says what a row of a table stands for.
type level int

const (
	perRecord level = iota
	perRelation
	perColumn
)

// source is a table function.
type source struct {
	db      *DB
	name    string
	level   level
	columns []Column
}

// sources returns the table functions of a database.
func (db *DB) sources() []*source {
	without := func(name string) (out []Column) {
		for _, c := range trailColumns {
			if c.Name != name {
				out = append(out, c)
			}
		}
		return out
	}
	return []*source{
		{db, "steno_trail", perRecord, trailColumns},
		{db, "steno_export", perRecord, enumColumns()},
		{db, "steno_relations", perRelation, slices.Concat(relationColumns, without("relations"))},
		{db, "steno_columns", perColumn, slices.Concat(columnColumns, without("relations"))},
	}
}

// binding is a use of a table function in a statement.
type binding struct {
	*source
	conditions conditions
}

// scanning is one execution of a binding.
type scanning struct {
	*binding
	scan          *trail.Scan
	projected     []*Column
	needs         need
	fields        format.Field // fields of records that are needed; 0: all
	countRows     bool         // count records, for an export
	comparedNames *query.Names // names that the statement compares columns with; nil: none
}

// worker is the state of one of DuckDB's threads in a scanning.
type worker struct {
	*scanning
	reader            *trail.ScanReader
	ref               *trail.BlockRef
	row               row
	vectors           []*vector
	caches            []cache
	filter            *query.Matcher // nil: all records
	selectsByRelation bool           // the statement chooses rows by names of relations
	nameReader        *query.NamesReader
	rows              Rows // counted if countRows is set

	stringBytes int // bytes of strings in the chunk, filled by the vectors

	relation, column int // the next ones of the current record
	inRecord         bool
}

// newHandle makes a Go value available to DuckDB, as a pointer to C memory that has the value's handle.
// steno_delete releases both.
func newHandle(v any) unsafe.Pointer {
	p := C.malloc(C.size_t(unsafe.Sizeof(C.uintptr_t(0))))
	*(*C.uintptr_t)(p) = C.uintptr_t(cgo.NewHandle(v))
	return p
}

func fromHandle[T any](p unsafe.Pointer) T {
	return cgo.Handle(*(*C.uintptr_t)(p)).Value().(T)
}

//export steno_delete
func steno_delete(p unsafe.Pointer) {
	h := cgo.Handle(*(*C.uintptr_t)(p))
	if s, ok := h.Value().(*scanning); ok {
		s.end()
	}
	h.Delete()
	C.free(p)
}

// register creates the table function in DuckDB.
func (s *source) register(conn duckdb.Connection) error {
	f := duckdb.CreateTableFunction()
	defer duckdb.DestroyTableFunction(&f)
	duckdb.TableFunctionSetName(f, s.name)
	varchar := typeVarchar.logical()
	defer duckdb.DestroyLogicalType(&varchar)
	duckdb.TableFunctionAddParameter(f, varchar)
	duckdb.TableFunctionSetExtraInfo(f, newHandle(s), unsafe.Pointer(C.steno_delete))
	duckdb.TableFunctionSupportsProjectionPushdown(f, true)
	duckdb.TableFunctionSetBind(f, unsafe.Pointer(C.steno_bind))
	duckdb.TableFunctionSetInit(f, unsafe.Pointer(C.steno_init))
	duckdb.TableFunctionSetLocalInit(f, unsafe.Pointer(C.steno_local_init))
	duckdb.TableFunctionSetFunction(f, unsafe.Pointer(C.steno_scan))
	if duckdb.RegisterTableFunction(conn, f) == duckdb.StateError {
		return fmt.Errorf("could not register table function %s", s.name)
	}
	return nil
}

//export steno_bind
func steno_bind(p unsafe.Pointer) {
	info := duckdb.BindInfo{Ptr: p}
	defer recoverAsError(func(text string) { duckdb.BindSetError(info, text) })
	b := &binding{source: fromHandle[*source](duckdb.BindGetExtraInfo(info))}
	value := duckdb.BindGetParameter(info, 0)
	defer duckdb.DestroyValue(&value)
	if !duckdb.IsNullValue(value) {
		var err error
		if b.conditions, err = parseConditions(duckdb.GetVarchar(value)); err != nil {
			duckdb.BindSetError(info, err.Error())
			return
		}
	}
	for i := range b.columns {
		c := &b.columns[i]
		t := c.Type.logical()
		duckdb.BindAddResultColumn(info, c.Name, t)
		duckdb.DestroyLogicalType(&t)
	}
	duckdb.BindSetCardinality(info, duckdb.IdxT(b.db.approximateRecords()), false)
	duckdb.BindSetBindData(info, newHandle(b), unsafe.Pointer(C.steno_delete))
}

//export steno_init
func steno_init(p unsafe.Pointer) {
	info := duckdb.InitInfo{Ptr: p}
	defer recoverAsError(func(text string) { duckdb.InitSetError(info, text) })
	s := &scanning{binding: fromHandle[*binding](duckdb.InitGetBindData(info))}
	for i := range int(duckdb.InitGetColumnCount(info)) {
		c := &rowNumber
		if index := int(duckdb.InitGetColumnIndex(info, duckdb.IdxT(i))); index >= 0 && index < len(s.columns) {
			c = &s.columns[index]
		}
		s.projected = append(s.projected, c)
		s.needs |= c.needs
	}
	if s.level != perRecord {
		s.needs |= needsNames
	}
	if !slices.ContainsFunc(s.projected, func(c *Column) bool { return c.fields == 0 }) {
		for _, c := range s.projected {
			s.fields |= c.fields
		}
	}
	s.scan = s.db.scan(s)
	duckdb.InitSetMaxThreads(info, duckdb.IdxT(runtime.GOMAXPROCS(0)))
	duckdb.InitSetInitData(info, newHandle(s), unsafe.Pointer(C.steno_delete))
}

// end closes a scanning. No thread works on it any more.
func (s *scanning) end() {
	s.db.ended(s)
	s.scan.Close()
}

//export steno_local_init
func steno_local_init(p unsafe.Pointer) {
	info := duckdb.InitInfo{Ptr: p}
	duckdb.InitSetInitData(info, newHandle(&worker{}), unsafe.Pointer(C.steno_delete))
}

//export steno_scan
func steno_scan(p, output unsafe.Pointer) {
	info := duckdb.FunctionInfo{Ptr: p}
	defer recoverAsError(func(text string) { duckdb.FunctionSetError(info, text) })
	w := fromHandle[*worker](duckdb.FunctionGetLocalInitData(info))
	if w.scanning == nil {
		w.begin(fromHandle[*scanning](duckdb.FunctionGetInitData(info)))
	}
	chunk := duckdb.DataChunk{Ptr: output}
	for i, v := range w.vectors {
		v.start(duckdb.DataChunkGetVector(chunk, duckdb.IdxT(i)))
		w.caches[i].reset()
	}
	n := w.fill()
	for _, v := range w.vectors {
		v.finish()
		if w.name == "steno_export" && v.sawUnknown() {
			duckdb.FunctionSetError(info, unknownName)
			return
		}
	}
	duckdb.DataChunkSetSize(chunk, duckdb.IdxT(n))
	if err := w.db.failure.Load(); err != nil {
		duckdb.FunctionSetError(info, (*err).Error())
	}
}

// recoverAsError reports a panic to DuckDB as an error, because a panic cannot unwind C frames.
func recoverAsError(set func(string)) {
	if r := recover(); r != nil {
		set(fmt.Sprintf("internal error: %v", r))
	}
}

func (w *worker) begin(s *scanning) {
	w.scanning, w.reader = s, s.scan.Reader()
	w.selectsByRelation = s.conditions.selectsByRelation()
	w.nameReader = s.comparedNames.Reader()
	w.caches = make([]cache, len(s.projected))
	for i, c := range s.projected {
		w.vectors = append(w.vectors, newVector(c.Type, &w.stringBytes))
		w.caches[i].generation = 1
	}
	if f := s.db.options.Filter; f != nil {
		w.filter = &query.Matcher{Filter: f}
	}
}

// maxChunk bounds the bytes of a chunk, because DuckDB aborts the process if it cannot allocate memory for a
// string.
const maxChunk = 4 << 20

// relationsCached is the number of a shape's relations for which caches keep values.
const relationsCached = 8

// fill sets the rows of a chunk, and returns their number.
func (w *worker) fill() int {
	r := &w.row
	w.stringBytes = 0
	for n := 0; ; n++ {
		if n == chunkSize || w.stringBytes > maxChunk || !w.next() {
			return n
		}
		for i, v := range w.vectors {
			c := w.projected[i]
			index := -1
			switch c.by {
			case bySession:
				index = r.SessionIndex
			case byShape:
				index = r.ShapeIndex
			case byText:
				index = r.TextIndex
			case byFingerprint:
				// A text may have several query identifiers: one in each database, or for each search path.
				if r.Shape != nil && r.Shape.QueryID != 0 {
					index = 2 * r.ShapeIndex
				} else {
					index = 2*r.TextIndex + 1
				}
			case byBlock:
				index = 0
			case byRelation:
				if r.ShapeIndex >= 0 && r.number < relationsCached {
					index = r.ShapeIndex*relationsCached + r.number
				}
			case byKind:
				index = int(r.Kind)
			case byOutcome:
				index = int(r.Outcome)
				if !r.Has(format.FieldOutcome) && !hasOutcome(r.Kind) {
					index = -1
				}
			}
			if w.caches[i].get(v, n, index) {
				continue
			}
			c.set(r, v, n)
			w.caches[i].put(v, n, index)
		}
	}
}

// next advances to the next row.
func (w *worker) next() bool {
	for {
		if w.inRecord && w.nextOfRecord() {
			return true
		}
		if !w.reader.Next() {
			w.db.addExportedRows(&w.rows)
			return false
		}
		w.row.Record = &w.reader.Record
		if w.reader.Ref != w.ref {
			w.ref, w.row.ref = w.reader.Ref, w.reader.Ref
			if w.needs&needsServers != 0 {
				w.row.servers = w.db.servers().Of(w.ref)
			}
			for i := range w.caches {
				w.caches[i].reset()
			}
			if w.filter != nil {
				w.filter.Reset()
			}
			w.nameReader.Start()
		}
		if w.needs&needsNames != 0 {
			if why := w.row.Record.OmitsNames(); why != "" {
				w.db.warnOmitted(w.row.Record, why)
			} else if w.selectsByRelation && w.row.Record.Unfinished() {
				w.db.withoutNames.NoteUnfinished(w.row.Record)
			}
		}
		if w.filter != nil {
			w.db.hiddenByFilter.Note(w.filter, w.row.Record)
		}
		if w.filter != nil && !w.filter.Keep(w.row.Record) {
			continue
		}
		w.nameReader.Record(w.row.Record)
		if w.countRows {
			w.rows.Add(w.row.Record)
		}
		if w.level == perRecord {
			return true
		}
		w.inRecord = w.row.Shape != nil
		w.relation, w.column = 0, 0
	}
}

// nextOfRecord advances to the record's next relation, or its next column.
func (w *worker) nextOfRecord() bool {
	r := &w.row
	for w.relation < len(r.Shape.Relations) {
		r.relation, r.number = &r.Shape.Relations[w.relation], w.relation
		if w.column == 0 && slices.ContainsFunc(w.conditions, func(c condition) bool {
			return !c.matchesRelation(r.relation)
		}) {
			w.relation++
			continue
		}
		if w.level == perRelation {
			w.relation++
			return true
		}
		if w.column < len(r.relation.Columns) {
			r.column = &r.relation.Columns[w.column]
			r.access = r.column.Access
			w.column++
			return true
		}
		w.relation, w.column = w.relation+1, 0
		r.column, r.access = nil, r.relation.Omitted
		if !r.relation.HasColumns {
			r.access = r.relation.Access & (format.AccessSelect | format.AccessInsert | format.AccessUpdate)
		}
		if r.access != 0 {
			return true
		}
	}
	w.inRecord = false
	return false
}

// failure is an error that ends all scans.
type failure = atomic.Pointer[error]
