// The items of a block: definitions and records.

package format

import (
	"bytes"
	"cmp"
	"math/bits"
	"slices"
	"strconv"
	"strings"
)

// Record is one record of a block, or a data part (Kind is KindData). Its slices and pointers refer to the
// block, and are valid until the block is loaded again.
type Record struct {
	Kind    Kind
	Outcome Outcome
	Depth   uint64
	// Fields says which fields the record has.
	Fields Field
	// Number is the record's number in its stream.
	Number uint64
	// Session, Shape and Text point to definitions of the block. The indexes are those in the block's
	// dictionaries, -1 for none, so that a caller can keep by index what it computes from a definition.
	Session      *Session
	Shape        *Shape
	Text         []byte
	SessionIndex int
	ShapeIndex   int
	TextIndex    int

	Seq          uint64 // 0: not numbered
	Statement    uint64
	Substatement uint64
	Time         int64  // microseconds since 2000-01-01 UTC
	Duration     uint64 // microseconds
	Rows         uint64
	XID          uint64
	Nulls        []byte
	Values       []byte
	SQLState     []byte
	Message      []byte
	TextBytes    uint64 // full length of a truncated text
	TextHash     []byte // SHA-256 of the full text
	Parts        [3]uint64
	ExtraCount   int
	Extra        []byte
	Audited      Audited // 0: by session only
	Ending       Ending  // of a transaction
	Times        Times   // of a statement

	// Effect says whether a statement took effect. It is set with MergeOptions.Rollbacks and
	// ScanOptions.Rollbacks.
	Effect Effect

	// isDecoded says that strings were converted to UTF-8 from this charset. Values and further names are
	// converted when they are read.
	isDecoded bool
	charset   *charset

	// Part and Data are, for a data part, what it continues, and its bytes.
	Part PartKind
	Data []byte

	// hasRare says that fields may be set that few records have.
	hasRare bool
}

// Effect says what became, with its transaction, of the work of a successful statement. Everything that counts
// statements uses it.
type Effect uint8

// Effects.
const (
	// EffectNone: nothing could be lost, because the statement has failed, or has no transaction ID.
	EffectNone Effect = iota
	EffectCommitted
	// EffectRolledBack: the statement was rolled back with its transaction, or with a part of it.
	EffectRolledBack
	// EffectUnknown: the end of the statement's transaction has no record. Either the trail ends before it,
	// also after the transaction was prepared, or the record was not written, or is too far away.
	EffectUnknown
)

var namesEffect = [...]string{"", "committed", "rolled back", "unknown"}

func (e Effect) String() string { return namesEffect[e] }

// EffectNames returns the names of effects.
func EffectNames() []string { return namesEffect[EffectCommitted:] }

// Effects counts successful statements that are known not to have taken effect, or may not have.
type Effects struct{ RolledBack, Unknown int64 }

// Add counts the record of a statement.
func (e *Effects) Add(r *Record) {
	switch r.Effect {
	case EffectRolledBack:
		e.RolledBack++
	case EffectUnknown:
		e.Unknown++
	}
}

// Merge adds the counts of others.
func (e *Effects) Merge(o *Effects) {
	e.RolledBack += o.RolledBack
	e.Unknown += o.Unknown
}

// Undone returns whether a successful statement is known to have been rolled back, with its transaction or a
// part of it.
func (r *Record) Undone() bool { return r.Effect == EffectRolledBack }

// Result returns the outcome of the record, or, if it succeeded but was rolled back or that is not known, the
// effect.
func (r *Record) Result() string {
	switch {
	case r.Outcome != OutcomeOk, r.Effect == EffectNone, r.Effect == EffectCommitted:
		return r.Outcome.String()
	}
	return r.Effect.String()
}

// Ending says how a transaction ended. FieldEvent, FieldStatements and FieldCommit say which of its fields are
// known. ExtraPairs yields them.
type Ending struct {
	Event      Event
	Statements uint64
	LSN        uint64 // position in the WAL at which the record of the commit begins
	End        uint64 // and at which it ends
	Timeline   uint64
}

// endingFields are the fields of Ending.
const endingFields = FieldEvent | FieldStatements | FieldCommit

// Times has the times that a statement took for separate steps, in microseconds. ExtraPairs yields them.
type Times struct {
	Known    KnownTimes
	Analysis uint64 // part of the duration
	Plan     uint64 // part of the duration
	Commit   uint64 // after the duration
	Elapsed  uint64 // from the record's time to the end of the last work for the statement
}

// KnownTimes says which fields of Times are known.
type KnownTimes uint8

// Bits of KnownTimes, in the order of the fields.
const (
	KnownAnalysis KnownTimes = 1 << iota
	KnownPlan
	KnownCommit
	KnownElapsed
)

// PartKind says what a data part continues.
type PartKind uint8

// Kinds of data parts.
const (
	PartText PartKind = iota
	PartValues
	PartMessage
)

// Has returns whether the record has a field.
func (r *Record) Has(f Field) bool { return r.Fields&f != 0 }

// End returns the time at which the statement or event ended.
func (r *Record) End() int64 {
	switch {
	case r.Kind != KindStatement:
		return r.Time
	case r.Times.Known&KnownElapsed != 0:
		return r.Time + int64(r.Times.Elapsed)
	}
	return r.Time + int64(r.Duration)
}

// HasTextHash returns whether the text was truncated and the hash of the full text is known.
func (r *Record) HasTextHash() bool {
	return r.Has(FieldCut) && slices.ContainsFunc(r.TextHash, func(b byte) bool { return b != 0 })
}

// HasExtra returns whether ExtraPairs yields anything.
func (r *Record) HasExtra() bool { return r.HasNames() || r.Times.Known != 0 }

// HasNames returns whether Names yields anything.
func (r *Record) HasNames() bool {
	return r.Has(endingFields) || r.ExtraCount > 1 || r.ExtraCount == 1 && r.Portal() == nil
}

// Names in EXTRA. Formats show the portal as a field of its own.
var (
	namePortal     = []byte("portal")
	nameSearchPath = []byte("search_path")
)

// Portal returns the name of the portal or cursor to which a statement's query belongs; nil: none.
func (r *Record) Portal() []byte {
	portal, _ := r.statementExtra(namePortal)
	return portal
}

// SearchPath returns the schemas that were searched for a statement's relations without a schema, if these are
// known.
func (r *Record) SearchPath() (path []byte, ok bool) { return r.statementExtra(nameSearchPath) }

// statementExtra returns the value of a name in EXTRA of a statement's record.
func (r *Record) statementExtra(wanted []byte) (found []byte, ok bool) {
	if r.ExtraCount > 0 && (r.Kind == KindStatement || r.Kind == KindStart) {
		r.eachStored(func(name, value []byte) bool {
			if bytes.Equal(name, wanted) {
				found, ok = value, true
			}
			return !ok
		})
	}
	return found, ok
}

// Prepared returns the name of the prepared statement that was executed; nil: none.
func (r *Record) Prepared() []byte {
	if r.Shape == nil {
		return nil
	}
	return r.Shape.Prepared
}

// ExtraPairs yields the record's further names and values: those of a transaction's end and of a statement's
// times, which are not stored as text, then those of EXTRA.
func (r *Record) ExtraPairs(yield func(name, value []byte) bool) {
	if (!r.Has(endingFields) || r.endingPairs(yield)) && (r.Times.Known == 0 || r.timePairs(yield)) {
		r.StoredPairs(yield)
	}
}

// Names yields the same without a statement's times, for formats that have separate fields for these.
func (r *Record) Names(yield func(name, value []byte) bool) {
	if !r.Has(endingFields) || r.endingPairs(yield) {
		r.StoredPairs(yield)
	}
}

// StoredPairs yields the names and values of EXTRA, without the portal.
func (r *Record) StoredPairs(yield func(name, value []byte) bool) {
	portal := r.Kind == KindStatement || r.Kind == KindStart
	r.eachStored(func(name, value []byte) bool {
		return portal && bytes.Equal(name, namePortal) || yield(name, value)
	})
}

func (r *Record) eachStored(yield func(name, value []byte) bool) {
	c := cursor{b: r.Extra}
	for range r.ExtraCount {
		name, value := c.str(), c.str()
		if r.isDecoded {
			name, value = r.charset.decode(name), r.charset.decode(value)
		}
		if c.bad || !yield(name, value) {
			return
		}
	}
}

func (r *Record) endingPairs(yield func(name, value []byte) bool) bool {
	var buf [24]byte
	for i := range endingNames {
		if value := r.AppendEnding(buf[:0], i); len(value) > 0 && !yield(endingNames[i], value) {
			return false
		}
	}
	return true
}

// endingNames are the names of the fields of Ending, in order.
var endingNames = [...][]byte{[]byte("event"), []byte("statements"), []byte("commit_lsn"), []byte("end_lsn"),
	[]byte("timeline")}

// EndingName returns the i-th name that ExtraPairs yields for Ending; empty after the last one.
func EndingName(i int) string {
	if i < len(endingNames) {
		return string(endingNames[i])
	}
	return ""
}

// AppendEnding appends the value of the i-th name; nothing if the record does not have it. These values consist
// of letters, digits, underscores and slashes.
func (r *Record) AppendEnding(dst []byte, i int) []byte {
	e := &r.Ending
	switch {
	case i == 0 && r.Has(FieldEvent):
		return append(dst, e.Event.String()...)
	case i == 1 && r.Has(FieldStatements):
		return AppendUint(dst, e.Statements)
	case i == 2 && r.Has(FieldCommit):
		return appendLSN(dst, e.LSN)
	case i == 3 && r.Has(FieldCommit):
		return appendLSN(dst, e.End)
	case i == 4 && r.Has(FieldCommit):
		return AppendUint(dst, e.Timeline)
	}
	return dst
}

// HasEnding returns whether a field of Ending is known.
func (r *Record) HasEnding() bool { return r.Has(endingFields) }

// timeNames are the names of the fields of Times, in the order of KnownTimes.
var timeNames = [...][]byte{[]byte("analysis_us"), []byte("plan_us"), []byte("commit_us"), []byte("elapsed_us")}

func (r *Record) timePairs(yield func(name, value []byte) bool) bool {
	var buf [24]byte
	for name, n := range r.Times.All {
		if !yield(name, AppendUint(buf[:0], n)) {
			return false
		}
	}
	return true
}

// All yields the known times with their names.
func (t *Times) All(yield func(name []byte, microseconds uint64) bool) {
	i := 0
	for known, n := range t.Each {
		if known && !yield(timeNames[i], n) {
			return
		}
		i++
	}
}

// Each yields all times, in the order of their names, and whether each is known.
func (t *Times) Each(yield func(known bool, microseconds uint64) bool) {
	for i, n := range [...]uint64{t.Analysis, t.Plan, t.Commit, t.Elapsed} {
		if !yield(t.Known&(1<<i) != 0, n) {
			return
		}
	}
}

// appendLSN appends a position in the WAL in the format of pg_lsn.
func appendLSN(dst []byte, lsn uint64) []byte {
	dst = append(appendDigits(dst, lsn>>32, "0123456789ABCDEF"), '/')
	return appendDigits(dst, lsn&0xffffffff, "0123456789ABCDEF")
}

// ExtraValue returns the value of one of the names that ExtraPairs yields.
func (r *Record) ExtraValue(name string) (value []byte, ok bool) {
	for n, v := range r.ExtraPairs {
		if string(n) == name {
			return v, true
		}
	}
	return nil, false
}

// Reasons returns why the record was written.
func (r *Record) Reasons() Audited {
	if r.Audited == 0 {
		return AuditedSession
	}
	return r.Audited
}

// RolledBack returns whether the record is the end of a transaction or subtransaction that did not take effect.
func (r *Record) RolledBack() bool {
	return (r.Kind == KindTransaction || r.Kind == KindSubtransaction) && r.Outcome == OutcomeError
}

// Failed returns whether something failed, was refused, or was interrupted. The end of a transaction that was
// rolled back is no failure: the client requested it, or the statement that failed has a record of its own.
// Only with an SQLSTATE did the end itself fail.
func (r *Record) Failed() bool {
	if r.RolledBack() {
		return len(r.SQLState) > 0
	}
	return r.Outcome == OutcomeError || r.Outcome == OutcomeInterrupted || r.Kind == KindAuthFailed
}

// Session is a session definition: the session, and its context from some record on.
type Session struct {
	Start    int64 // microseconds since 2000-01-01 UTC
	PID      uint32
	facts    [len(namesKey)][]byte
	ascii    bool // all facts are ASCII
	unwanted bool // the selection has none of its records

	seq       uint64 // of the last record
	statement uint64 // last finished top-level statement
	xid       uint64 // last transaction ID
}

// Fact returns a fact of the session; empty: absent.
func (s *Session) Fact(k Key) []byte { return s.facts[k] }

// ID returns the ID of the session.
func (s *Session) ID() SessionID { return SessionID{s.Start, s.PID} }

// Leader returns the session whose statement a parallel worker helps to execute. Its start is known to the
// second.
func (s *Session) Leader() (id SessionID, ok bool) {
	start, pid, found := bytes.Cut(s.Fact(KeyLeader), []byte("."))
	seconds, err := strconv.ParseInt(string(start), 16, 40)
	n, err2 := strconv.ParseUint(string(pid), 16, 32)
	if !found || err != nil || err2 != nil {
		return SessionID{}, false
	}
	return SessionID{Start: (seconds - epoch) * 1e6, PID: uint32(n)}, true
}

// LeaderSubstatement returns the number of the nested statement that a parallel worker helps to execute, if it
// is nested.
func (s *Session) LeaderSubstatement() (n uint64, ok bool) {
	n, err := strconv.ParseUint(string(s.Fact(KeyLeaderSubstatement)), 10, 32)
	return n, err == nil
}

// ClientID returns the session of the client that the records belong to, with its start to the second. For a
// parallel worker, it is the leader's.
func (s *Session) ClientID() SessionID {
	if leader, ok := s.Leader(); ok {
		return leader
	}
	return SessionID{Start: floorDiv(s.Start, 1e6) * 1e6, PID: s.PID}
}

// SessionID identifies a session across restarts of the server.
type SessionID struct {
	Start int64
	PID   uint32
}

// Compare orders sessions by start, then by process ID.
func (id SessionID) Compare(o SessionID) int {
	return cmp.Or(cmp.Compare(id.Start, o.Start), cmp.Compare(id.PID, o.PID))
}

// epoch is 2000-01-01 00:00:00 UTC in seconds since 1970.
const epoch = 946684800

// Append appends the ID in the format of PostgreSQL's %c.
func (id SessionID) Append(dst []byte) []byte {
	dst = appendHex(dst, uint64(floorDiv(id.Start, 1e6)+epoch))
	dst = append(dst, '.')
	return appendHex(dst, uint64(id.PID))
}

func (id SessionID) String() string { return string(id.Append(nil)) }

// IsSessionID returns whether a text is an ID as SessionID.String formats it.
func IsSessionID(s string) bool {
	start, pid, ok := strings.Cut(s, ".")
	return ok && isHex(start, 64) && isHex(pid, 32)
}

func isHex(s string, bits int) bool {
	n, err := strconv.ParseUint(s, 16, bits)
	return err == nil && strconv.FormatUint(n, 16) == s
}

// Shape is a shape definition: what all executions of a statement have in common.
type Shape struct {
	Class     Class
	QueryID   uint64
	Command   []byte
	Relations []Relation
	Params    []ParamType
	Objects   []Object
	Query     []byte // command tag of a utility statement's query, if that changes rows
	Prepared  []byte // name of the prepared statement

	ascii        bool // all names are ASCII
	unwanted     bool // the selection has none of its records
	alwaysWanted bool // the selection has its records whatever their sessions
	valuesSize   int  // size of the values if no parameter is NULL; -1: not always the same
}

// Relation is a relation that a statement uses.
type Relation struct {
	Type   RelationType
	Access Access
	Name   []byte

	// Columns are those that the statement reads and writes; HasColumns says that they are known. Omitted is
	// the access to further columns, which the record leaves out.
	Columns    []Column
	HasColumns bool
	Omitted    Access
	// Via is 1 plus the index of the view through which the statement reaches the relation; 0: none.
	Via int
}

// Column is a column of a relation. Its name is written as in SQL, quoted if necessary, or * for the whole row.
type Column struct {
	Access Access
	Name   []byte
}

// WholeRow is the name of a Column that stands for all columns.
const WholeRow = "*"

// ColumnAccess returns the ways in which the relation's columns are used: select, insert, update.
func (r *Relation) ColumnAccess() Access {
	if !r.HasColumns {
		return 0
	}
	access := r.Access&(AccessSelect|AccessInsert|AccessUpdate) | r.Omitted
	for _, c := range r.Columns {
		access |= c.Access
	}
	return access
}

// Object is something that DDL created, altered, renamed or dropped, or a function that was called.
type Object struct {
	Action Action
	Type   []byte
	Name   []byte
	To     []byte // the new name, for a rename
}

// ParamType is the type of a parameter.
type ParamType struct {
	OID  uint64
	Repr Repr
}

// IsUnused returns whether this is not a parameter of the statement, but a variable of the function that runs
// it, which the statement does not use.
func (p ParamType) IsUnused(null bool) bool { return null && p.OID == 0 && p.Repr == ReprNone }

// LastParam returns the number of the last parameter that the statement uses; 0: it uses none.
func (r *Record) LastParam() int {
	n, last := 0, 0
	r.Params(func(p ParamType, _ []byte, null bool) bool {
		n++
		if !p.IsUnused(null) {
			last = n
		}
		return true
	})
	return last
}

func appendHex(dst []byte, v uint64) []byte { return appendDigits(dst, v, "0123456789abcdef") }

func appendDigits(dst []byte, v uint64, digits string) []byte {
	n := max(1, (bits.Len64(v)+3)/4)
	for i := n - 1; i >= 0; i-- {
		dst = append(dst, digits[v>>(4*i)&15])
	}
	return dst
}

// AppendUint appends a number in decimal. It is faster than strconv.AppendUint, which formats into a buffer of
// its own and copies.
func AppendUint(dst []byte, n uint64) []byte {
	if n < 10 {
		return append(dst, byte('0'+n))
	}
	digits := 2
	for limit := uint64(100); n >= limit; limit *= 10 {
		if digits++; digits == 20 {
			break
		}
	}
	from := len(dst)
	dst = slices.Grow(dst, digits)[:from+digits]
	for i := from + digits - 1; i > from; i -= 2 {
		pair := n % 100 * 2
		n /= 100
		dst[i], dst[i-1] = pairs[pair+1], pairs[pair]
	}
	if digits&1 != 0 {
		dst[from] = byte('0' + n)
	}
	return dst
}

// pairs has the two digits of each number below 100.
const pairs = "0001020304050607080910111213141516171819202122232425262728293031323334353637383940414243444546474849" +
	"5051525354555657585960616263646566676869707172737475767778798081828384858687888990919293949596979899"

func floorDiv(a, b int64) int64 {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}
