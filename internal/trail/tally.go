// Counts the records of which nothing more is to be said, for those who look at all others.

package trail

// Tally is what a block's plain records have in common: statements that ended well, whose
// values are as their types say, and whose number follows that of the last one of their
// session definition.
type Tally struct {
	Records int
	// Open are the sequence numbers of each session definition, by its index, from the last
	// one that did not follow; Last is 0 if there are none.
	Open []Span
	// FirstTime, FirstEnd and LastEnd bound their times, as a block's header does.
	FirstTime, FirstEnd, LastEnd int64
}

// plainFields are those that plain records may have.
const plainFields = firstFields | FieldNulls | FieldValues | FieldSeq | FieldStatement | FieldNesting | FieldXID

// Reset makes it empty.
func (t *Tally) Reset() {
	*t = Tally{Open: t.Open[:0], FirstTime: MaxTime, FirstEnd: MaxTime, LastEnd: MinTime}
}

// takes counts a record if it is plain.
func (t *Tally) takes(r *Record) bool {
	if r.Kind != KindStatement || r.Fields&^plainFields != 0 || !t.follows(r) || !r.ParamsFit() {
		return false
	}
	t.AddTimes(r)
	t.Records++
	t.Open[r.SessionIndex].Last++
	return true
}

// follows says whether a record's number is the next one of its session definition.
func (t *Tally) follows(r *Record) bool {
	return r.Seq > 1 && r.SessionIndex < len(t.Open) && r.Seq == t.Open[r.SessionIndex].Last+1
}

// AddTimes widens the bounds to those of a record.
func (t *Tally) AddTimes(r *Record) {
	end := r.End()
	t.FirstTime, t.FirstEnd, t.LastEnd = min(t.FirstTime, r.Time), min(t.FirstEnd, end), max(t.LastEnd, end)
}

// OpenOf are the numbers of a session definition.
func (t *Tally) OpenOf(session int) *Span {
	for session >= len(t.Open) {
		t.Open = append(t.Open, Span{})
	}
	return &t.Open[session]
}
