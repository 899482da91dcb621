// Counting of plain records without returning them, for callers that look at all others.

package format

// Tally sums up a block's plain records. These are successful statements and transactions whose parameters
// match their types and are not NULL, and whose number is the one after the last record of their session
// definition.
type Tally struct {
	Records      int
	Transactions int // among Records
	// Open are the sequence numbers of plain records, by index of their session definition, since the last
	// record that was not plain; Last is 0 if there are none.
	Open []Span
	// FirstTime, FirstEnd and LastEnd are the bounds of the records' times, as in a block's header.
	FirstTime, FirstEnd, LastEnd int64
}

// Reset empties the tally.
func (t *Tally) Reset() {
	*t = Tally{Open: t.Open[:0], FirstTime: MaxTime, FirstEnd: MaxTime, LastEnd: MinTime}
}

// AddTimes widens the bounds.
func (t *Tally) AddTimes(start, end int64) {
	t.FirstTime, t.FirstEnd, t.LastEnd = min(t.FirstTime, start), min(t.FirstEnd, end), max(t.LastEnd, end)
}

// OpenOf returns the sequence numbers for a session definition.
func (t *Tally) OpenOf(session int) *Span {
	for session >= len(t.Open) {
		t.Open = append(t.Open, Span{})
	}
	return &t.Open[session]
}

// plainFields are the fields that plain statements may have, plainEndFields those of transactions.
const (
	plainFields    = firstFields | FieldValues | FieldStatement | FieldNesting | FieldXID
	plainEndFields = FieldShape | FieldTime | FieldDuration | FieldXID | FieldEvent | FieldStatements | FieldCommit
)

// countPlain counts a statement or transaction, whose body begins at a position of an item, if it is plain. If
// not, it changes nothing: readRecord then reads the record, and reports what is wrong.
func (b *Block) countPlain(item []byte, at int, kind Kind) bool {
	t := b.want.Tally
	session, at := readVarint(item, at)
	mask, at := readVarint(item, at)
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
		n, next := readVarint(item, at)
		var values []byte
		if values, at = readBytes(item, next, n); !shape.fitsTypes(values) {
			return false
		}
	}
	var statement, depth uint64
	xid := s.xid
	if mask&uint64(FieldStatement) != 0 {
		statement, at = readVarint(item, at)
	}
	if mask&uint64(FieldNesting) != 0 {
		depth, at = readVarint(item, at)
		_, at = readVarint(item, at)
	}
	if mask&uint64(FieldXID) != 0 {
		xid, at = readVarint(item, at)
	}
	lsn := b.lastLSN
	if mask&uint64(plainEndFields&^plainFields) != 0 {
		if mask&uint64(FieldEvent) != 0 {
			at++
		}
		if mask&uint64(FieldStatements) != 0 {
			_, at = readVarint(item, at)
		}
		if mask&uint64(FieldCommit) != 0 {
			var begin, length uint64
			begin, at = readVarint(item, at)
			length, at = readVarint(item, at)
			_, at = readVarint(item, at)
			lsn += uint64(unzigzag(begin)) + length
		}
	}
	if at != len(item) {
		return false
	}
	b.lastTime += unzigzag(numbers[3])
	end := b.lastTime
	if kind == KindTransaction {
		t.Transactions++
	} else {
		end += int64(numbers[4])
		s.statement += uint64(unzigzag(statement))
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

// countPlainRun counts records of a run up to the first one that is not plain. It returns whether the run has
// no more records.
func (b *Block) countPlainRun() (all bool) {
	t, run, at := b.want.Tally, b.run, 0
	for b.runLeft > 0 {
		i, next := readVarint(run, at)
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
		if f.textVaries {
			v, next = readVarint(run, next)
			different, next = readBytes(run, next, v)
		}
		if f.fields&FieldRows != 0 && f.rows == 0 {
			_, next = readVarint(run, next)
		}
		if f.fields&FieldTime != 0 {
			v, next = readVarint(run, next)
			time += unzigzag(v)
		}
		if f.fields&FieldDuration != 0 {
			duration, next = readVarint(run, next)
		}
		if f.fields&FieldValues != 0 {
			shape := &noShape
			if f.shape >= 0 {
				shape = &b.shapes[f.shape]
			}
			var values []byte
			if values, next = readBytes(run, next, f.values); !shape.fitsTypes(values) {
				break
			}
		}
		if f.fields&FieldXID != 0 {
			v, next = readVarint(run, next)
			xid += uint64(unzigzag(v))
		}
		if next > len(run) || b.runLeft == 1 && next < len(run) {
			break
		}
		if f.textVaries && b.varyText(b.texts[f.text], f.textPrefix, f.textSuffix, different) != "" {
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

// noShape stands for the shape of records without one. It has no parameters.
var noShape Shape
