// Records and definitions: the items of a block.

package format

import (
	"bytes"
	"cmp"
	"math/bits"
	"slices"
	"strconv"
	"strings"
)

// Record is one record of a block, or a data part (Kind is KindData). All
// slices and pointers are into the block and end with it.
type Record struct {
	Kind    Kind
	Outcome Outcome
	Depth   uint64
	// Fields says which of the fields below are present.
	Fields Field
	// Number is the record's number in its stream.
	Number uint64
	// Session, Shape and Text point to definitions of the block. The indexes
	// are those of the block's dictionaries, -1 for none: what is computed
	// from a definition can be kept by its index.
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
	TextBytes    uint64 // full length of a cut text
	TextHash     []byte // and its SHA-256
	Parts        [3]uint64
	ExtraCount   int
	Extra        []byte
	Audited      Audited // 0: by session alone
	Ending       Ending  // of a transaction
	Times        Times   // of a statement

	// Effect is what became of a statement; MergeOptions.Rollbacks and ScanOptions.Rollbacks have it set.
	Effect Effect

	// isShown says that strings are shown as UTF-8, from this charset; values and
	// further names are when they are asked for.
	isShown bool
	charset *charset

	// Part and Data are what a data part continues, and its bytes.
	Part PartKind
	Data []byte

	// hasRare says that fields may be set that few records have.
	hasRare bool
}

// Effect is what became of what a statement has done that ended well, with its transaction. All that counts
// statements goes by it.
type Effect uint8

// What may become of it.
const (
	// EffectNone is that of what has nothing to lose: it has not ended well, or has no transaction ID.
	EffectNone Effect = iota
	EffectCommitted
	// EffectRolledBack is that of a statement which was rolled back with its transaction, or a part of it.
	EffectRolledBack
	// EffectUnknown is that of a statement whose transaction has no record of its end: the trail ends before, also after
	// it was prepared, or the record was not written or is too far away.
	EffectUnknown
)

var namesEffect = [...]string{"", "committed", "rolled back", "unknown"}

func (e Effect) String() string { return namesEffect[e] }

// EffectNames are those of effects.
func EffectNames() []string { return namesEffect[EffectCommitted:] }

// Effects counts statements that ended well, but did not take effect, as far as it is known.
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

// Merge adds those that were counted elsewhere.
func (e *Effects) Merge(o *Effects) {
	e.RolledBack += o.RolledBack
	e.Unknown += o.Unknown
}

// Undone says that a statement ended well, and that its transaction, or a part of it, is known to have been
// rolled back.
func (r *Record) Undone() bool { return r.Effect == EffectRolledBack }

// Result says whether the record's statement took effect: how it ended and, if it ended well, that it was rolled back
// or that nobody knows.
func (r *Record) Result() string {
	switch {
	case r.Outcome != OutcomeOk, r.Effect == EffectNone, r.Effect == EffectCommitted:
		return r.Outcome.String()
	}
	return r.Effect.String()
}

// Ending is how a transaction ended; the record's fields FieldEvent, FieldStatements
// and FieldCommit say which of it are known. ExtraPairs shows it.
type Ending struct {
	Event      Event
	Statements uint64
	LSN        uint64 // where the WAL record of the commit begins
	End        uint64 // and ends
	Timeline   uint64
}

// endingFields are those of Ending.
const endingFields = FieldEvent | FieldStatements | FieldCommit

// Times is what is said apart of the time that a statement took, in microseconds. ExtraPairs shows it.
type Times struct {
	Known    KnownTimes
	Analysis uint64 // part of the duration
	Plan     uint64 // likewise
	Commit   uint64 // after the duration
	Elapsed  uint64 // from the record's time to the end of the last work for the statement
}

// KnownTimes says which of Times there are.
type KnownTimes uint8

// What there may be.
const (
	KnownAnalysis KnownTimes = 1 << iota
	KnownPlan
	KnownCommit
	KnownElapsed
)

// PartKind is what a data part continues.
type PartKind uint8

// What a data part continues.
const (
	PartText PartKind = iota
	PartValues
	PartMessage
)

// Has says whether the record has a field.
func (r *Record) Has(f Field) bool { return r.Fields&f != 0 }

// End is the time at which what the record tells of ended.
func (r *Record) End() int64 {
	switch {
	case r.Kind != KindStatement:
		return r.Time
	case r.Times.Known&KnownElapsed != 0:
		return r.Time + int64(r.Times.Elapsed)
	}
	return r.Time + int64(r.Duration)
}

// HasTextHash says whether the hash of the whole text is known, of a text that was truncated.
func (r *Record) HasTextHash() bool {
	return r.Has(FieldCut) && slices.ContainsFunc(r.TextHash, func(b byte) bool { return b != 0 })
}

// HasExtra says whether the record has further names and values.
func (r *Record) HasExtra() bool { return r.HasNames() || r.Times.Known != 0 }

// HasNames says whether it has any but the times of a statement.
func (r *Record) HasNames() bool {
	return r.Has(endingFields) || r.ExtraCount > 1 || r.ExtraCount == 1 && r.Portal() == nil
}

// Names in EXTRA. That of the portal has a field of its own when it is shown.
var (
	namePortal     = []byte("portal")
	nameSearchPath = []byte("search_path")
)

// Portal is the name of the portal or cursor that a statement's query belongs to, nil if it has none.
func (r *Record) Portal() []byte {
	portal, _ := r.ofStatement(namePortal)
	return portal
}

// SearchPath is the schemas in which a statement's relations were looked for that it names without one, if that is
// known.
func (r *Record) SearchPath() (path []byte, ok bool) { return r.ofStatement(nameSearchPath) }

// ofStatement is the value that a statement's record has of a name in EXTRA.
func (r *Record) ofStatement(wanted []byte) (found []byte, ok bool) {
	if r.ExtraCount > 0 && (r.Kind == KindStatement || r.Kind == KindStart) {
		r.stored(func(name, value []byte) bool {
			if bytes.Equal(name, wanted) {
				found, ok = value, true
			}
			return !ok
		})
	}
	return found, ok
}

// Prepared is the name of the prepared statement that was executed, nil if it has none.
func (r *Record) Prepared() []byte {
	if r.Shape == nil {
		return nil
	}
	return r.Shape.Prepared
}

// ExtraPairs yields the record's further names and values: first those of a
// transaction's end and of a statement's times, which are not stored as text, then those of EXTRA.
func (r *Record) ExtraPairs(yield func(name, value []byte) bool) {
	if (!r.Has(endingFields) || r.endingPairs(yield)) && (r.Times.Known == 0 || r.timePairs(yield)) {
		r.StoredPairs(yield)
	}
}

// Names yields them without the times of a statement, for formats in which those have fields of their own.
func (r *Record) Names(yield func(name, value []byte) bool) {
	if !r.Has(endingFields) || r.endingPairs(yield) {
		r.StoredPairs(yield)
	}
}

// StoredPairs yields those of EXTRA, but the portal.
func (r *Record) StoredPairs(yield func(name, value []byte) bool) {
	portal := r.Kind == KindStatement || r.Kind == KindStart
	r.stored(func(name, value []byte) bool {
		return portal && bytes.Equal(name, namePortal) || yield(name, value)
	})
}

func (r *Record) stored(yield func(name, value []byte) bool) {
	c := cursor{b: r.Extra}
	for range r.ExtraCount {
		name, value := c.str(), c.str()
		if r.isShown {
			name, value = r.charset.shown(name), r.charset.shown(value)
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

// endingNames are the names of what Ending has, in their order.
var endingNames = [...][]byte{[]byte("event"), []byte("statements"), []byte("commit_lsn"), []byte("end_lsn"), []byte("timeline")}

// EndingName is the i-th name of those that ExtraPairs has for Ending, empty after the last.
func EndingName(i int) string {
	if i < len(endingNames) {
		return string(endingNames[i])
	}
	return ""
}

// AppendEnding appends its value, nothing if the record does not have it. The characters of
// these values are letters, digits, underscores and slashes.
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

// HasEnding says whether the record has something of Ending.
func (r *Record) HasEnding() bool { return r.Has(endingFields) }

// timeNames are the names of what Times has, in the order of KnownTimes.
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

// All yields those that there are, with their names.
func (t *Times) All(yield func(name []byte, microseconds uint64) bool) {
	i := 0
	for known, n := range t.Each {
		if known && !yield(timeNames[i], n) {
			return
		}
		i++
	}
}

// Each yields all of them, in the order of their names, and whether there is such a one.
func (t *Times) Each(yield func(known bool, microseconds uint64) bool) {
	for i, n := range [...]uint64{t.Analysis, t.Plan, t.Commit, t.Elapsed} {
		if !yield(t.Known&(1<<i) != 0, n) {
			return
		}
	}
}

// appendLSN appends a position in the WAL as pg_lsn shows it.
func appendLSN(dst []byte, lsn uint64) []byte {
	dst = append(appendDigits(dst, lsn>>32, "0123456789ABCDEF"), '/')
	return appendDigits(dst, lsn&0xffffffff, "0123456789ABCDEF")
}

// ExtraValue is the value of one of the record's further names.
func (r *Record) ExtraValue(name string) (value []byte, ok bool) {
	for n, v := range r.ExtraPairs {
		if string(n) == name {
			return v, true
		}
	}
	return nil, false
}

// Reasons are why the record was written.
func (r *Record) Reasons() Audited {
	if r.Audited == 0 {
		return AuditedSession
	}
	return r.Audited
}

// RolledBack says whether the record is of a transaction, or a subtransaction, that did not take effect.
func (r *Record) RolledBack() bool {
	return (r.Kind == KindTransaction || r.Kind == KindSubtransaction) && r.Outcome == OutcomeError
}

// Failed says whether something failed, was refused, or was interrupted. The end of a
// transaction that was rolled back is none: the client asked for it, or the statement
// that failed has a record of its own. Only with an SQLSTATE did the end itself fail.
func (r *Record) Failed() bool {
	if r.RolledBack() {
		return len(r.SQLState) > 0
	}
	return r.Outcome == OutcomeError || r.Outcome == OutcomeInterrupted || r.Kind == KindAuthFailed
}

// Session is a session definition: a session and its context from a record on.
type Session struct {
	Start    int64 // microseconds since 2000-01-01 UTC
	PID      uint32
	facts    [len(namesKey)][]byte
	plain    bool // all facts are ASCII
	unwanted bool // according to Want

	seq       uint64 // of the last record
	statement uint64 // last finished top-level statement
	xid       uint64 // last transaction ID
}

// Fact is one fact of the session, empty when it is absent.
func (s *Session) Fact(k Key) []byte { return s.facts[k] }

// ID is what identifies the session.
func (s *Session) ID() SessionID { return SessionID{s.Start, s.PID} }

// Leader is the session whose statement a parallel worker executes a part of, to
// the second of its start.
func (s *Session) Leader() (id SessionID, ok bool) {
	start, pid, found := bytes.Cut(s.Fact(KeyLeader), []byte("."))
	seconds, err := strconv.ParseInt(string(start), 16, 40)
	n, err2 := strconv.ParseUint(string(pid), 16, 32)
	if !found || err != nil || err2 != nil {
		return SessionID{}, false
	}
	return SessionID{Start: (seconds - epoch) * 1e6, PID: uint32(n)}, true
}

// LeaderSubstatement is the nested statement of that session that a parallel worker helps to execute, if it is one.
func (s *Session) LeaderSubstatement() (n uint64, ok bool) {
	n, err := strconv.ParseUint(string(s.Fact(KeyLeaderSubstatement)), 10, 32)
	return n, err == nil
}

// ClientID is the session of the client whose statements the records belong to, to
// the second of its start: that of a parallel worker's leader.
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

// Compare orders sessions by their starts.
func (id SessionID) Compare(o SessionID) int {
	return cmp.Or(cmp.Compare(id.Start, o.Start), cmp.Compare(id.PID, o.PID))
}

// epoch is 2000-01-01 00:00:00 UTC in seconds since 1970.
const epoch = 946684800

// Append appends the id as PostgreSQL's %c shows it.
func (id SessionID) Append(dst []byte) []byte {
	dst = appendHex(dst, uint64(floorDiv(id.Start, 1e6)+epoch))
	dst = append(dst, '.')
	return appendHex(dst, uint64(id.PID))
}

func (id SessionID) String() string { return string(id.Append(nil)) }

// IsSessionID says whether a text is a session's id as SessionID.String writes it.
func IsSessionID(s string) bool {
	start, pid, ok := strings.Cut(s, ".")
	return ok && isHex(start, 64) && isHex(pid, 32)
}

func isHex(s string, bits int) bool {
	n, err := strconv.ParseUint(s, 16, bits)
	return err == nil && strconv.FormatUint(n, 16) == s
}

// Shape is a shape definition: what executions of one statement share.
type Shape struct {
	Class     Class
	QueryID   uint64
	Command   []byte
	Relations []Relation
	Params    []ParamType
	Objects   []Object
	Query     []byte // command tag of a utility statement's query, if that changes rows
	Prepared  []byte // name of the prepared statement

	plain      bool // all names are ASCII
	unwanted   bool // according to Want
	always     bool // the same
	valuesSize int  // of parameters that are not NULL, if it is always the same; else -1
}

// Relation is a relation that a statement uses.
type Relation struct {
	Type   RelationType
	Access Access
	Name   []byte

	// Columns are those that the statement reads and writes; HasColumns says that they
	// are known. Omitted is how it uses further columns, which the record leaves out.
	Columns    []Column
	HasColumns bool
	Omitted    Access
	// Via is the index, plus 1, of the view through which the statement reaches the
	// relation; 0 is none.
	Via int
}

// Column is a column of a relation: its name as SQL writes it, in quotes where that needs
// them, or * for the row as a whole.
type Column struct {
	Access Access
	Name   []byte
}

// WholeRow is the name of a Column that stands for all columns.
const WholeRow = "*"

// ColumnAccess is which of its columns a relation names: reads, inserts, updates.
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

// Object is what DDL made, changed, renamed or removed, or a function that a
// statement called.
type Object struct {
	Action Action
	Type   []byte
	Name   []byte
	To     []byte // the new name of what was renamed
}

// ParamType is the type of a parameter.
type ParamType struct {
	OID  uint64
	Repr Repr
}

// IsUnused says whether it is no parameter of the statement, but a variable of the function that
// runs the statement.
func (p ParamType) IsUnused(null bool) bool { return null && p.OID == 0 && p.Repr == ReprNone }

// LastParam is the number of the last parameter that the statement uses, 0 if it uses none.
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

// AppendUint appends a number in decimal. It is faster than strconv's, which writes into a
// buffer of its own first.
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

const pairs = "00010203040506070809101112131415161718192021222324252627282930313233343536373839404142434445464748495051525354555657585960616263646566676869707172737475767778798081828384858687888990919293949596979899"

func floorDiv(a, b int64) int64 {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}
