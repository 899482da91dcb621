// Counts records of which nothing more is to be said, for those who look at all others.

package format

// Tally is what a block's plain records have in common: statements and transactions that ended
// well, whose parameters are as their types say and not NULL, and whose number follows that of
// the last record of their session definition.
type Tally struct {
	Records      int
	Transactions int // of these
	// Open are the sequence numbers of each session definition, by its index, from the last
	// one that did not follow; Last is 0 if there are none.
	Open []Span
	// FirstTime, FirstEnd and LastEnd bound the records' times, as a block's header does.
	FirstTime, FirstEnd, LastEnd int64
}

// Reset makes it empty.
func (t *Tally) Reset() {
	*t = Tally{Open: t.Open[:0], FirstTime: MaxTime, FirstEnd: MaxTime, LastEnd: MinTime}
}

// AddTimes widens the bounds.
func (t *Tally) AddTimes(start, end int64) {
	t.FirstTime, t.FirstEnd, t.LastEnd = min(t.FirstTime, start), min(t.FirstEnd, end), max(t.LastEnd, end)
}

// OpenOf are the numbers of a session definition.
func (t *Tally) OpenOf(session int) *Span {
	for session >= len(t.Open) {
		t.Open = append(t.Open, Span{})
	}
	return &t.Open[session]
}

// plainFields are those that plain records may have; of a transaction, plainEndFields.
const (
	plainFields    = firstFields | FieldValues | FieldStatement | FieldNesting | FieldXID
	plainEndFields = FieldShape | FieldTime | FieldDuration | FieldXID | FieldEvent | FieldStatements | FieldCommit
)

// count counts the record of a statement or transaction, whose body begins at a position of an
// item, if it is plain. Else it changes nothing: record reads it then, and says what is wrong
// with it.
func (b *Block) count(item []byte, at int, kind Kind) bool {
	t := b.want.Tally
	session, at := varint(item, at)
	mask, at := varint(item, at)
	plain := plainFields
	if kind == KindTransaction {
		plain = plainEndFields
	}
	if session >= uint64(len(t.Open)) || Field(mask)&^plain != 0 || b.times.Known != 0 {
		return false
	}
	s, open := &b.sessions[session], &t.Open[session]
	if open.Last == 0 || s.seq+1 == 0 {
		return false
	}
	var numbers firstNumbers
	at = numbers.read(item, at, Field(mask))
	shape := &noShape
	if mask&uint64(FieldShape) != 0 {
		if numbers[0] >= uint64(len(b.shapes)) {
			return false
		}
		shape = &b.shapes[numbers[0]]
	}
	if mask&uint64(FieldText) != 0 && numbers[1] >= uint64(len(b.texts)) {
		return false
	}
	if mask&uint64(FieldValues) != 0 {
		n, next := varint(item, at)
		var values []byte
		if values, at = span(item, next, n); !shape.fit(values) {
			return false
		}
	}
	var statement, depth uint64
	xid := s.xid
	if mask&uint64(FieldStatement) != 0 {
		statement, at = varint(item, at)
	}
	if mask&uint64(FieldNesting) != 0 {
		depth, at = varint(item, at)
		_, at = varint(item, at)
	}
	if mask&uint64(FieldXID) != 0 {
		xid, at = varint(item, at)
	}
	lsn := b.lastLSN
	if mask&uint64(plainEndFields&^plainFields) != 0 {
		if mask&uint64(FieldEvent) != 0 {
			at++
		}
		if mask&uint64(FieldStatements) != 0 {
			_, at = varint(item, at)
		}
		if mask&uint64(FieldCommit) != 0 {
			var begin, length uint64
			begin, at = varint(item, at)
			length, at = varint(item, at)
			_, at = varint(item, at)
			lsn += uint64(signed(begin)) + length
		}
	}
	if at != len(item) {
		return false
	}
	b.lastTime += signed(numbers[3])
	end := b.lastTime
	if kind == KindTransaction {
		t.Transactions++
	} else {
		end += int64(numbers[4])
		s.statement += uint64(signed(statement))
		if depth == 0 {
			s.statement++
		}
	}
	s.seq, s.xid, b.lastLSN = s.seq+1, xid, lsn
	b.records++
	open.Last = s.seq
	t.Records++
	t.AddTimes(b.lastTime, end)
	return true
}

// countRun counts records of a run up to the first one that is not plain. It says whether that was the
// whole rest of the run.
func (b *Block) countRun() (all bool) {
	t, run, at := b.want.Tally, b.run, 0
	for b.runLeft > 0 {
		i, next := varint(run, at)
		if i >= uint64(len(b.forms)) {
			break
		}
		f := &b.forms[i]
		if f.session >= len(t.Open) {
			break
		}
		s, open := &b.sessions[f.session], &t.Open[f.session]
		if open.Last == 0 || s.seq+1 == 0 {
			break
		}
		var v, duration uint64
		var different []byte
		time, xid := b.lastTime, s.xid
		if f.varies {
			v, next = varint(run, next)
			different, next = span(run, next, v)
		}
		if f.fields&FieldRows != 0 && f.rows == 0 {
			_, next = varint(run, next)
		}
		if f.fields&FieldTime != 0 {
			v, next = varint(run, next)
			time += signed(v)
		}
		if f.fields&FieldDuration != 0 {
			duration, next = varint(run, next)
		}
		if f.fields&FieldValues != 0 {
			shape := &noShape
			if f.shape >= 0 {
				shape = &b.shapes[f.shape]
			}
			var values []byte
			if values, next = span(run, next, f.values); !shape.fit(values) {
				break
			}
		}
		if f.fields&FieldXID != 0 {
			v, next = varint(run, next)
			xid += uint64(signed(v))
		}
		if next > len(run) || b.runLeft == 1 && next < len(run) {
			break
		}
		if f.varies && b.varyText(b.texts[f.text], f.before, f.after, different) != "" {
			break
		}
		at = next
		b.runLeft--
		s.seq, s.statement, s.xid = s.seq+1, s.statement+1, xid
		b.records++
		b.lastTime = time
		open.Last = s.seq
		t.Records++
		t.AddTimes(time, time+int64(duration))
	}
	b.run = run[at:]
	return b.runLeft == 0
}

// noShape is what has no parameters.
var noShape Shape
