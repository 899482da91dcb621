// The columns of the tables that are read from a trail: what each means, and how it is set.

package sql

import (
	"bytes"
	"math"
	"slices"
	"strconv"

	"github.com/pg-steno/pg_steno/internal/format"
	"github.com/pg-steno/pg_steno/internal/statement"
	"github.com/pg-steno/pg_steno/internal/trail"
)

// Column is a column of a table.
type Column struct {
	Name string
	Type *Type
	Doc  string

	by    key  // the definition that the value depends on
	needs need // what must be read to set it
	// fields are the fields of the record that it comes from, to the last one; 0: others are needed, too.
	fields format.Field
	set    func(r *row, v *vector, at int)
}

// noFields is for columns that come from a session or a shape alone.
const noFields = format.FieldShape

// rowNumber is the column that DuckDB requests when it needs only the number of rows.
var rowNumber = Column{Type: typeBigint, fields: noFields, set: func(_ *row, v *vector, at int) { v.setInt64(at, 0) }}

// key says which definition of a block determines a value. Values are cached by the index of that definition.
type key uint8

const (
	byRecord key = iota
	bySession
	byShape
	byText
	byFingerprint // of the shape's query identifier, if it has one, else of the text
	byBlock
	byKind
	byOutcome
	byRelation // of the shape
)

// need is what only some columns need.
type need uint8

const (
	needsParts need = 1 << iota
	needsRollbacks
	needsServers
	needsTexts // strings that clients chose, converted for display
	needsNames // names of relations and objects, some of which may be in data parts
)

// row is what a row is made of: a record; in the table relations, also one of its relations, and in columns,
// one of the relation's columns.
type row struct {
	*format.Record
	ref      *trail.BlockRef
	servers  []trail.Server // of the block, with needsServers
	relation *format.Relation
	number   int            // of the relation in the shape
	column   *format.Column // nil: not known
	access   format.Access  // to the column

	scratch []byte
	pairs   [][2][]byte // of extra
}

// epoch is the difference between the trail's time and DuckDB's, in microseconds.
const epoch = 946684800 * 1e6

func setTime(v *vector, at int, t int64) {
	if t > math.MaxInt64-epoch-1 {
		v.setNull(at)
		return
	}
	v.setInt64(at, t+epoch)
}

// factColumn returns a column with a fact of the session.
func factColumn(name string, k format.Key, doc string) Column {
	return Column{
		Name:   name,
		Type:   typeVarchar,
		Doc:    doc,
		by:     bySession,
		needs:  needsTexts,
		fields: noFields,
		set:    func(r *row, v *vector, at int) { v.setNonEmpty(at, r.Session.Fact(k)) },
	}
}

// present sets a number, or NULL if the record does not have it.
func present(v *vector, at int, n uint64, ok bool) {
	if !ok {
		v.setNull(at)
		return
	}
	v.setCount(at, n)
}

// hasOutcome returns whether all records of a kind have an outcome.
func hasOutcome(k format.Kind) bool {
	switch k {
	case format.KindStatement, format.KindStart, format.KindConnect, format.KindAuthFailed:
		return true
	}
	return false
}

var (
	columnType   = structOf(Field{"name", typeVarchar}, Field{"access", typeNames})
	relationType = structOf(Field{"name", typeVarchar}, Field{"type", typeVarchar}, Field{"access", typeNames},
		Field{"columns", listOf(columnType)}, Field{"columns_omitted", typeNames}, Field{"via", typeVarchar},
		Field{"audited", typeBoolean})
	objectType = structOf(Field{"name", typeVarchar}, Field{"type", typeVarchar}, Field{"action", typeVarchar},
		Field{"to", typeVarchar})
)

// trailColumns are the columns of the table trail. Column 0 is cheap, because DuckDB reads it for count(*).
var trailColumns = []Column{
	{Name: "time", fields: format.FieldTime, Type: typeTimestamptz,
		Doc: "when it started; of `transaction`, `disconnect` and other events, when it happened",
		set: func(r *row, v *vector, at int) { setTime(v, at, r.Time) }},
	{Name: "kind", fields: noFields, Type: typeVarchar,
		Doc: "`statement`, `connect` …: see [records.md](records.md#kinds)", by: byKind,
		set: func(r *row, v *vector, at int) { v.setName(at, r.Kind.String()) }},
	{Name: "session", fields: noFields, Type: typeVarchar,
		Doc: "ID of the session, as PostgreSQL's `%c` shows it", by: bySession,
		set: func(r *row, v *vector, at int) {
			r.scratch = r.Session.ID().Append(r.scratch[:0])
			v.setText(at, r.scratch)
		}},
	{Name: "session_start", fields: noFields, Type: typeTimestamptz, Doc: "when the session started",
		set: func(r *row, v *vector, at int) { setTime(v, at, r.Session.Start) }},
	{Name: "seq", fields: format.FieldSeq, Type: typeBigint,
		Doc: "sequence number of the record in its session, without gaps",
		set: func(r *row, v *vector, at int) { present(v, at, r.Seq, r.Seq != 0) }},
	{Name: "statement", fields: format.FieldNesting, Type: typeBigint,
		Doc: "number of the top-level statement in the session",
		set: func(r *row, v *vector, at int) { present(v, at, r.Statement, r.Statement != 0) }},
	{Name: "substatement", fields: format.FieldNesting, Type: typeBigint,
		Doc: "number of a nested statement in its top-level statement",
		set: func(r *row, v *vector, at int) { present(v, at, r.Substatement, r.Substatement != 0) }},
	{Name: "depth", fields: format.FieldNesting, Type: typeBigint,
		Doc: "nesting depth of a statement; 0 is a client's own",
		set: func(r *row, v *vector, at int) {
			present(v, at, r.Depth, r.Kind == format.KindStatement || r.Kind == format.KindStart)
		}},
	{Name: "pid", fields: noFields, Type: typeBigint, Doc: "process ID", set: func(r *row, v *vector, at int) {
		v.setInt64(at, int64(r.Session.PID))
	}},
	factColumn("user", format.KeyUser, "session user"),
	factColumn("role", format.KeyRole, "current role, if it is not the session user"),
	factColumn("app_user", format.KeyAppUser, "end user behind a connection pool, as set by the application"),
	factColumn("app_context", format.KeyAppContext, "context as set by the application, such as a request ID"),
	factColumn("database", format.KeyDatabase, "database"),
	factColumn("application", format.KeyApplication, "`application_name`"),
	factColumn("client", format.KeyClient, "client address and port, or `[local]`"),
	{Name: "address", fields: noFields, needs: needsTexts, Type: typeVarchar,
		Doc: "client address without the port, or `[local]`", by: bySession,
		set: func(r *row, v *vector, at int) { v.setNonEmpty(at, statement.Host(r.Session.Fact(format.KeyClient))) }},
	factColumn("backend_type", format.KeyBackendType, "type of the process, as in `pg_stat_activity`"),
	factColumn("auth_method", format.KeyAuthMethod, "authentication method, as in `pg_hba.conf`"),
	factColumn("identity", format.KeyIdentity, "authenticated identity"),
	factColumn("leader", format.KeyLeader, "for a parallel worker: the session whose statement it helps to execute"),
	{Name: "leader_substatement", fields: noFields, needs: needsTexts, Type: typeBigint,
		Doc: "for a parallel worker: the nested statement that it helps to execute", by: byRecord,
		set: func(r *row, v *vector, at int) {
			leader := r.Session.Fact(format.KeyLeaderSubstatement)
			if len(leader) == 0 { // checked first, because ParseUint allocates an error
				v.setNull(at)
				return
			}
			n, err := strconv.ParseUint(string(leader), 10, 32)
			present(v, at, n, err == nil)
		}},
	factColumn("encoding", format.KeyEncoding, "encoding of the database, if it is not UTF8"),
	{Name: "class", fields: noFields, Type: typeVarchar,
		Doc: "`read`, `write`, `ddl` …: see [records.md](records.md#classes)", by: byShape,
		set: func(r *row, v *vector, at int) {
			if r.Shape == nil || r.Shape.Class == 0 {
				v.setNull(at)
				return
			}
			v.setName(at, r.Shape.Class.String())
		}},
	{Name: "command", fields: noFields, needs: needsTexts, Type: typeVarchar,
		Doc: "command tag, such as `CREATE TABLE`", by: byShape,
		set: func(r *row, v *vector, at int) {
			if r.Shape == nil {
				v.setNull(at)
				return
			}
			v.setNonEmpty(at, r.Shape.Command)
		}},
	{Name: "relations", fields: noFields, needs: needsNames | needsTexts, Type: listOf(relationType),
		Doc: "the relations that a statement uses, with their columns; tables `relations` and `columns` have a " +
			"row for each", by: byShape,
		set: setRelations},
	{Name: "objects", fields: noFields, needs: needsNames | needsTexts, Type: listOf(objectType),
		Doc: "objects that DDL created, altered, renamed or dropped, and functions that were called", by: byShape,
		set: setObjects},
	{Name: "text", Type: typeVarchar, Doc: "text of the statement or note", by: byText,
		needs: needsParts | needsTexts,
		set: func(r *row, v *vector, at int) {
			if r.Text == nil {
				v.setNull(at)
				return
			}
			v.setText(at, r.Text)
		}},
	{Name: "text_bytes", Type: typeBigint, Doc: "full length of a text that was truncated",
		set: func(r *row, v *vector, at int) { present(v, at, r.TextBytes, r.Has(format.FieldCut)) }},
	{Name: "params", Type: typeNames, Doc: "values of the parameters as PostgreSQL prints them",
		needs: needsParts | needsTexts, set: setParams},
	{Name: "query_id", fields: noFields, Type: typeBigint, Doc: "as `pg_stat_statements.queryid`",
		set: func(r *row, v *vector, at int) {
			if r.Shape == nil || r.Shape.QueryID == 0 {
				v.setNull(at)
				return
			}
			v.setInt64(at, int64(r.Shape.QueryID))
		}},
	{Name: "fingerprint", Type: typeVarchar,
		Doc: "what statements have in common that differ only in constants: of `query_id`, or else of the text " +
			"without constants",
		by: byFingerprint, needs: needsParts | needsTexts, set: setFingerprint},
	{Name: "rows", fields: format.FieldRows, Type: typeBigint, Doc: "rows returned or changed",
		set: func(r *row, v *vector, at int) { present(v, at, r.Rows, r.Has(format.FieldRows)) }},
	{Name: "duration", fields: format.FieldDuration, Type: typeInterval,
		Doc: "how long the statement, session or transaction lasted",
		set: func(r *row, v *vector, at int) {
			if !r.Has(format.FieldDuration) {
				v.setNull(at)
				return
			}
			v.setMicros(at, r.Duration)
		}},
	{Name: "duration_us", fields: format.FieldDuration, Type: typeBigint, Doc: "the same in microseconds",
		set: func(r *row, v *vector, at int) { present(v, at, r.Duration, r.Has(format.FieldDuration)) }},
	{Name: "outcome", fields: format.FieldOutcome, by: byOutcome, Type: typeVarchar,
		Doc: "`ok`, `error`, `interrupted` or `running`",
		set: func(r *row, v *vector, at int) {
			if !r.Has(format.FieldOutcome) && !hasOutcome(r.Kind) {
				v.setNull(at)
				return
			}
			v.setName(at, r.Outcome.String())
		}},
	{Name: "failed", fields: format.FieldError, Type: typeBoolean,
		Doc: "whether something failed, was refused or was interrupted; not the end of a transaction that was " +
			"rolled back on request",
		set: func(r *row, v *vector, at int) { v.setBool(at, r.Failed()) }},
	{Name: "sqlstate", needs: needsTexts, Type: typeVarchar, Doc: "SQLSTATE of the failure",
		set: func(r *row, v *vector, at int) {
			if !r.Has(format.FieldError) {
				v.setNull(at)
				return
			}
			v.setNonEmpty(at, r.SQLState)
		}},
	{Name: "message", Type: typeVarchar, Doc: "message of the failure", needs: needsParts | needsTexts,
		set: func(r *row, v *vector, at int) { v.setNonEmpty(at, r.Message) }},
	{Name: "xid", fields: format.FieldXID, Type: typeBigint, Doc: "transaction ID of 64 bits",
		set: func(r *row, v *vector, at int) { present(v, at, r.XID, r.XID != 0) }},
	{Name: "rolled_back", Type: typeBoolean,
		Doc: "whether a statement that succeeded was [rolled " +
			"back](commands/cat.md#statements-that-were-rolled-back) with its transaction", needs: needsRollbacks,
		set: func(r *row, v *vector, at int) { v.setBool(at, r.Undone()) }},
	{Name: "effect", Type: typeVarchar,
		Doc: "what became of a statement that succeeded: `committed`, `rolled back`, or `unknown` if the trail " +
			"does not say how its transaction ended; NULL: it has no `xid`", needs: needsRollbacks,
		set: func(r *row, v *vector, at int) { setString(v, at, r.Effect.String()) }},
	{Name: "extra", needs: needsTexts, Type: mapOf(),
		Doc: "further names and values, such as those of `setting`, `gap` and `server` records", set: setExtra},
	{Name: "audited", Type: typeNames, Doc: "why the record was written: `session`, `object`, `mandatory`, `rule`",
		set: func(r *row, v *vector, at int) { v.setNames(at, reasonNames(r.Reasons())) }},
	{Name: "stream", fields: noFields, Type: typeBigint, Doc: "stream of the trail that has the record",
		set: func(r *row, v *vector, at int) { v.setInt64(at, int64(r.ref.Segment.Stream.Number)) }},
	{Name: "segment", fields: noFields, Type: typeBigint, Doc: "number of the segment",
		set: func(r *row, v *vector, at int) { v.setCount(at, r.ref.Segment.Number) }},
	{Name: "block", fields: noFields, Type: typeBigint, Doc: "number of the block",
		set: func(r *row, v *vector, at int) { v.setCount(at, r.ref.Number) }},
	{Name: "host", Type: typeVarchar, Doc: "host of the server", needs: needsServers,
		set: func(r *row, v *vector, at int) { setString(v, at, r.server().Host) }},
	{Name: "cluster_name", Type: typeVarchar, Doc: "`cluster_name` of the server", needs: needsServers,
		set: func(r *row, v *vector, at int) { setString(v, at, r.server().Cluster) }},
	{Name: "system_identifier", fields: noFields, Type: typeVarchar,
		Doc: "system identifier of the server's cluster, a number", by: byBlock,
		set: func(r *row, v *vector, at int) {
			if r.ref.Segment.Header.SystemID == 0 {
				v.setNull(at)
				return
			}
			r.scratch = strconv.AppendUint(r.scratch[:0], r.ref.Segment.Header.SystemID, 10)
			v.setText(at, r.scratch)
		}},
	{Name: "query_command", needs: needsTexts, Type: typeVarchar,
		Doc: "command tag of the query that a utility statement contains, if it changes rows",
		set: func(r *row, v *vector, at int) {
			if r.Shape == nil {
				v.setNull(at)
				return
			}
			v.setNonEmpty(at, r.Shape.Query)
		}},
	{Name: "prepared", needs: needsTexts, Type: typeVarchar, Doc: "name of the prepared statement that was executed",
		set: func(r *row, v *vector, at int) { v.setNonEmpty(at, r.Prepared()) }},
	{Name: "portal", needs: needsTexts, Type: typeVarchar, Doc: "name of the portal or cursor",
		set: func(r *row, v *vector, at int) { v.setNonEmpty(at, r.Portal()) }},
}

// server returns the server that recorded the row.
func (r *row) server() *trail.Server {
	i := len(r.servers) - 1
	for i > 0 && r.Time < r.servers[i].Since {
		i--
	}
	return &r.servers[i]
}

func setString(v *vector, at int, s string) {
	if s == "" {
		v.setNull(at)
		return
	}
	v.setName(at, s)
}

// relationColumns are the first columns of the table relations.
var relationColumns = []Column{
	{Name: "relation", fields: noFields, by: byRelation, needs: needsTexts, Type: typeVarchar,
		Doc: "name of the relation with its schema",
		set: func(r *row, v *vector, at int) { v.setText(at, r.relation.Name) }},
	{Name: "relation_type", fields: noFields, by: byRelation, Type: typeVarchar,
		Doc: "`table`, `view` …: see [records.md](records.md#types-of-relations)",
		set: func(r *row, v *vector, at int) { v.setName(at, r.relation.Type.String()) }},
	{Name: "access", fields: noFields, by: byRelation, Type: typeNames,
		Doc: "how it is used: `select`, `insert`, `update`, `delete`, `truncate`, `references`",
		set: func(r *row, v *vector, at int) {
			v.setNames(at, accessNames(r.relation.Access&^format.AccessAudited))
		}},
	{Name: "via", fields: noFields, by: byRelation, needs: needsTexts, Type: typeVarchar,
		Doc: "the view through which it is reached",
		set: func(r *row, v *vector, at int) { v.setNonEmpty(at, via(r.Shape, r.relation)) }},
	{Name: "has_columns", fields: noFields, Type: typeBoolean,
		Doc: "whether the record names the columns, all of them",
		set: func(r *row, v *vector, at int) { v.setBool(at, r.relation.HasColumns && r.relation.Omitted == 0) }},
	{Name: "audited_privilege", fields: noFields, Type: typeBoolean,
		Doc: "whether `steno.role` has a privilege that was used",
		set: func(r *row, v *vector, at int) { v.setBool(at, r.relation.Access&format.AccessAudited != 0) }},
}

// columnColumns are the first columns of the table columns.
var columnColumns = []Column{
	relationColumns[0],
	{Name: "column_name", fields: noFields, needs: needsTexts, Type: typeVarchar,
		Doc: "name of the column as SQL writes it, in quotes if it needs them; `*` is the row as a whole; NULL " +
			"stands for columns that are not named in the record",
		set: func(r *row, v *vector, at int) {
			if r.column == nil {
				v.setNull(at)
				return
			}
			v.setText(at, r.column.Name)
		}},
	{Name: "access", fields: noFields, Type: typeNames, Doc: "how it is used: `select`, `insert`, `update`",
		set: func(r *row, v *vector, at int) { v.setNames(at, accessNames(r.access)) }},
	relationColumns[1],
	relationColumns[3],
}

// via returns the name of the view through which a relation is reached.
func via(s *format.Shape, r *format.Relation) []byte {
	if r.Via == 0 {
		return nil
	}
	return s.Relations[r.Via-1].Name
}

func setRelations(r *row, v *vector, at int) {
	if r.Shape == nil || len(r.Shape.Relations) == 0 {
		v.setNull(at)
		return
	}
	elements, i := v.setList(at, len(r.Shape.Relations))
	for k := range r.Shape.Relations {
		rel := &r.Shape.Relations[k]
		f := elements.fields
		f[0].setText(i, rel.Name)
		f[1].setName(i, rel.Type.String())
		f[2].setNames(i, accessNames(rel.Access&^format.AccessAudited))
		if rel.HasColumns {
			columns, c := f[3].setList(i, len(rel.Columns))
			for n := range rel.Columns {
				columns.fields[0].setText(c, rel.Columns[n].Name)
				columns.fields[1].setNames(c, accessNames(rel.Columns[n].Access))
				c++
			}
		} else {
			f[3].setNull(i)
		}
		if rel.Omitted != 0 {
			f[4].setNames(i, accessNames(rel.Omitted))
		} else {
			f[4].setNull(i)
		}
		f[5].setNonEmpty(i, via(r.Shape, rel))
		f[6].setBool(i, rel.Access&format.AccessAudited != 0)
		i++
	}
}

func setObjects(r *row, v *vector, at int) {
	if r.Shape == nil || len(r.Shape.Objects) == 0 {
		v.setNull(at)
		return
	}
	elements, i := v.setList(at, len(r.Shape.Objects))
	for k := range r.Shape.Objects {
		o := &r.Shape.Objects[k]
		f := elements.fields
		f[0].setText(i, o.Name)
		f[1].setText(i, o.Type)
		f[2].setName(i, o.Action.String())
		f[3].setNonEmpty(i, o.To)
		i++
	}
}

func setFingerprint(r *row, v *vector, at int) {
	n, ok := statement.Fingerprint(r.Record, &r.scratch)
	if !ok {
		v.setNull(at)
		return
	}
	const digits = "0123456789abcdef"
	var b [16]byte
	for i := range b {
		b[i] = digits[n>>(60-4*i)&15]
	}
	v.setText(at, b[:])
}

func setParams(r *row, v *vector, at int) {
	n := 0
	if r.Shape != nil && len(r.Shape.Params) > 0 && r.HasParams() {
		n = r.LastParam()
	}
	if n == 0 {
		v.setNull(at)
		return
	}
	elements, i := v.setList(at, n)
	r.Params(func(p format.ParamType, value []byte, null bool) bool {
		if n == 0 {
			return false
		}
		n--
		if null {
			elements.setNull(i)
		} else {
			r.scratch = format.AppendParam(r.scratch[:0], p.Repr, value)
			elements.setText(i, r.scratch)
		}
		i++
		return true
	})
}

func setExtra(r *row, v *vector, at int) {
	if !r.HasExtra() {
		v.setNull(at)
		return
	}
	r.pairs, r.scratch = r.pairs[:0], r.scratch[:0]
	for name, value := range r.ExtraPairs {
		if slices.ContainsFunc(r.pairs, func(p [2][]byte) bool { return bytes.Equal(p[0], name) }) {
			continue // a map has each name once
		}
		n := len(r.scratch)
		r.scratch = append(r.scratch, value...) // value is valid only until the next iteration
		r.pairs = append(r.pairs, [2][]byte{name, r.scratch[n:]})
	}
	elements, i := v.setList(at, len(r.pairs))
	for _, p := range r.pairs {
		elements.fields[0].setText(i, p[0])
		elements.fields[1].setText(i, p[1])
		i++
	}
}

// The names in each set of access flags, and of reasons, built once.
var (
	accessLists = lists(func(n int) func(func(string) bool) { return format.Access(n).Names })
	reasonLists = lists(func(n int) func(func(string) bool) { return format.Audited(n).Names })
)

func lists(of func(int) func(func(string) bool)) (all [256][]string) {
	for n := range all {
		all[n] = slices.Collect(of(n))
	}
	return all
}

func accessNames(a format.Access) []string {
	if a < format.Access(len(accessLists)) {
		return accessLists[a]
	}
	return slices.Collect(a.Names)
}

func reasonNames(a format.Audited) []string { return reasonLists[a] }
