// Writes the records that a ring file has and the trail does not have.

package recovery

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/pg-steno/pg_steno/internal/format"
	"github.com/pg-steno/pg_steno/internal/render"
	"github.com/pg-steno/pg_steno/internal/ring"
	"github.com/pg-steno/pg_steno/internal/trail/write"
)

// drain writes the records that a ring file has and the trail does not have, in the three steps of a server that finds
// the file at its start (extension/writer/recover.c):
//
//  1. What a dead writer was about to write: if its block is whole in the trail, its
//     rings are free up to there, else up to where they were.
//  2. The rings' messages.
//  3. What nobody could write any more: statements that were running, the ends of
//     sessions, and gap records that ended sessions left.
//
// Sequence numbers, in addition to the intents, decide what the trail has already, because the file may be a copy of
// one that a server has drained since.
func (r *recovery) drain(f *ring.File) error {
	d := &drainer{recovery: r, file: f, report: Ring{File: f.Path, Created: render.Time(f.Created), Rings: f.Rings,
		Lost: []string{}}}
	if !d.resolve() {
		for i := range f.Rings {
			if err := d.drainRing(i); err != nil {
				return err
			}
		}
		if err := d.drainEnds(); err != nil {
			return err
		}
	}
	if d.report.Records > 0 || d.report.parts > 0 {
		if err := r.writeEvent("event", "recover", "program", r.program, "ring_file", filepath.Base(f.Path),
			"postmaster", fmt.Sprint(f.Postmaster), "records", fmt.Sprint(d.report.Records)); err != nil {
			return err
		}
	}
	r.report.Rings = append(r.report.Rings, d.report)
	return nil
}

// drainer is the state of draining a ring file.
type drainer struct {
	*recovery
	file   *ring.File
	report Ring
	freed  map[int]bool // rings whose messages up to pending are in the trail
	// those of them that a server wrote while it was recovering the file
	byServer map[int]bool
	ended    int // the trail has the ends of the sessions of all rings below this one
	left     []end
}

// end is a ring whose messages have been written, and its session.
type end struct {
	number int
	ring   *ring.Ring
	source write.Source
}

// resolve is step 1; it reports whether the trail has everything, including the ends of all sessions.
func (d *drainer) resolve() bool {
	d.freed, d.byServer = map[int]bool{}, map[int]bool{}
	for i := range d.file.Intents {
		in := &d.file.Intents[i]
		if !d.hasBlock(in) {
			continue
		}
		if in.Ends() >= d.file.Rings {
			return true
		}
		d.ended = max(d.ended, in.Ends())
		for k := range d.file.Rings {
			if in.Frees(d.file, k) {
				d.freed[k] = true
				d.byServer[k] = d.byServer[k] || in.ByRecovery()
			}
		}
	}
	return false
}

// hasBlock reports whether the trail has the whole block of an intent.
func (d *drainer) hasBlock(in *ring.Intent) bool {
	path := filepath.Join(d.trail.Path, fmt.Sprint(in.Stream), fmt.Sprintf("%010d.steno", in.Segment))
	info, err := os.Stat(path)
	if err != nil || in.Offset > uint64(info.Size()) {
		return false
	}
	b := format.Block{Image: make([]byte, format.BlockHeaderSize)}
	if _, err := d.readAt(path, b.Image, int64(in.Offset)); err != nil {
		return false
	}
	h, err := format.ParseBlockHeader(b.Image)
	if err != nil || h.Number != in.Block || h.Chain != in.Hash ||
		uint64(h.Stored) > uint64(info.Size())-in.Offset-format.BlockHeaderSize {
		return false
	}
	b.Image = make([]byte, format.BlockHeaderSize+int(h.Stored))
	_, err = d.readAt(path, b.Image, int64(in.Offset))
	return err == nil && whole(&b)
}

func (d *drainer) reportLoss(i int, format string, args ...any) {
	d.report.Lost = append(d.report.Lost, fmt.Sprintf("ring %d: ", i)+fmt.Sprintf(format, args...))
}

// drainRing is step 2, for one ring.
func (d *drainer) drainRing(i int) error {
	r, err := d.file.Ring(i)
	if err != nil {
		d.reportLoss(i, "cannot be read: %s", pathReason(err))
		return nil
	}
	source := write.Source{Body: r.Session, Seq: r.SessionSeq, Statement: r.SessionStatement}
	if len(source.Body) > 0 && !write.CheckBody(source.Body) {
		d.reportLoss(i, "the properties of a session (user, database and others) cannot be read")
		source.Body = source.Body[:min(len(source.Body), write.SessionFacts)]
	}
	position := r.Tail
	for r.PositionsArePossible() && position != r.Head {
		m, ok := r.Message(position, r.Head, source.Seq, source.Statement)
		if !ok || !m.Follows(source.Seq) {
			break
		}
		if err := d.drainMessage(i, &source, &m, d.freed[i] && position < r.Pending); err != nil {
			return err
		}
		position += m.Length
	}
	// not if a server has already recorded the damage: it freed the ring up to its head then
	if position != r.Head && (!d.byServer[i] || r.Pending != r.Head) {
		if err := d.damage(i, &source, r, position); err != nil {
			return err
		}
	}
	if err := d.orphanDrops(i, r); err != nil {
		return err
	}
	if i < d.ended {
		return nil
	}
	d.left = append(d.left, end{i, r, source})
	return nil
}

// orphanDrops records how many records were dropped by ended sessions without a gap record. They have no sequence
// numbers, so a server that has drained another copy of the file may have recorded them, too.
func (d *drainer) orphanDrops(i int, r *ring.Ring) error {
	recorded := r.OrphanDropsRecorded
	if d.freed[i] {
		recorded = r.OrphanDropsPending
	}
	n, ok := r.UnrecordedDrops(recorded)
	if ok && n == 0 {
		return nil
	}
	d.report.Records++
	if !ok {
		d.reportLoss(i, "its number of dropped records of ended sessions is impossible: "+
			"%d, of %d at all, and %d have gap records", r.OrphanDrops, r.Drops, recorded)
		return d.writeOwn(format.KindGap, "reason", "ring damaged")
	}
	return d.writeOwn(format.KindGap, "count", fmt.Sprint(n), "reason", gapReason(r.OrphanDropsReason))
}

// damage writes a gap record for everything from a position on, which cannot be read.
func (d *drainer) damage(i int, s *write.Source, r *ring.Ring, position uint64) error {
	bytes := min(r.Head-position, uint64(d.file.Size))
	if r.PositionsArePossible() {
		d.reportLoss(i, "there is no valid message at %d: %d bytes, of session %s after record %d", position, bytes,
			s.ID(), s.Seq)
	} else {
		d.reportLoss(i, "its head is %d and its tail is %d, which is impossible: nothing was read from it",
			r.Head, r.Tail)
	}
	return d.writeGap(s, "bytes", bytes)
}

// writeGap writes a gap record for what cannot be read.
func (d *drainer) writeGap(s *write.Source, what string, n uint64) error {
	nameSource(s)
	w := &write.Record{Kind: format.KindGap, Seq: s.Seq + 1, Time: d.now(), Duration: write.None, Rows: write.None}
	w.ExtraCount, w.Extra = write.EncodePairs(what, fmt.Sprint(n), "reason", "ring damaged")
	return d.writeFinal(s, w, nil)
}

// nameSource gives a source without a session message an anonymous session, which keeps the block valid.
func nameSource(s *write.Source) {
	if len(s.Body) < write.SessionFacts {
		s.Body = make([]byte, write.SessionFacts)
	}
}

// drainMessage writes a message, unless the trail has it. A session message only changes the source.
func (d *drainer) drainMessage(i int, s *write.Source, m *ring.Message, written bool) error {
	switch {
	case m.Kind == format.KindDefSession:
		s.Body, s.Seq, s.Statement = m.Body, m.Seq, m.Statement
		return nil
	case m.Kind == 0:
		return nil
	}
	nameSource(s)
	if m.Kind == format.KindData {
		if written || d.ledger.has(s.ID(), m.Seq) {
			return nil
		}
		return d.drainData(s, m)
	}
	w := &m.Record
	d.report.Published++
	if written || d.ledger.has(s.ID(), w.Seq) {
		d.report.InTrail++
		s.Advance(w)
		return nil
	}
	err := write.Check(s, w)
	if err == nil && w.Kind > format.KindStart && w.Statement != 0 {
		err = errors.New("it is of another kind")
	}
	if err != nil {
		d.reportLoss(i, "record %d of session %s cannot be read: %s", w.Seq, s.ID(), err)
		after := *s
		after.Advance(w)
		err := d.writeGap(s, "count", 1)
		s.Statement = after.Statement // from which brief records that follow count
		return err
	}
	d.report.Records++
	return d.writeRecord(s, w)
}

// drainData writes a data part.
func (d *drainer) drainData(s *write.Source, m *ring.Message) error {
	stream, err := d.newStream()
	if err != nil {
		return err
	}
	d.report.parts++
	return stream.AddData(s, m.Seq, m.Part, m.Data)
}

// drainEnds is step 3.
func (d *drainer) drainEnds() error {
	for i := range d.left {
		if err := d.drainEnd(&d.left[i]); err != nil {
			return err
		}
	}
	return nil
}

func (d *drainer) drainEnd(e *end) error {
	r := e.ring
	for i, gap := range []*ring.Gap{&r.Left, &r.Own} {
		if gap.Count == 0 {
			continue
		}
		n, ok := gap.Numbers()
		if !ok {
			whose := [...]string{"of the session before", "of its session"}[i]
			d.reportLoss(e.number, "its number of dropped records %s is impossible: %d, with sequence numbers "+
				"%d to %d", whose, gap.Count, gap.First, gap.Last)
			n = 0
		}
		gap.Count = n
	}
	if err := d.leftGap(e); err != nil || r.Owner == 0 {
		return err
	}
	s := &e.source
	if id := (format.SessionID{Start: r.OwnerStart, PID: r.Owner}); r.OwnerStart != 0 && !describes(s, id) {
		if r.Own.Count == 0 && !r.Interrupted() {
			return nil // the session has no record in the trail, and needs none
		}
		s = unknownSession(id)
	}
	if len(s.Body) < write.SessionFacts || d.ledger.ended(s.ID()) {
		return nil
	}
	// unless the session has already written the gap record itself
	if r.Own.Count != 0 && s.Seq <= r.Own.Last {
		if err := d.writeFinal(s, gapRecord(&r.Own, d.now()), nil); err != nil {
			return err
		}
	}
	d.report.Sessions++
	if r.Interrupted() {
		if err := d.writeFinal(s, interrupted(r, s), &d.report.Interrupted); err != nil {
			return err
		}
	}
	if r.OwnerEnded {
		return nil
	}
	return d.writeFinal(s, disconnect(s, d.now()), nil)
}

// leftGap writes what an ended session has left in the ring's header: the gap record for what it dropped, and the
// record of its end.
func (d *drainer) leftGap(e *end) error {
	gap, s := &e.ring.Left, &e.source
	if gap.Count == 0 && gap.Ended == 0 {
		return nil
	}
	if id := (format.SessionID{Start: gap.Start, PID: gap.PID}); gap.PID != 0 && !describes(s, id) {
		s = unknownSession(id)
	}
	if gap.Count != 0 {
		if err := d.writeFinal(s, gapRecord(gap, d.now()), nil); err != nil {
			return err
		}
	}
	s.Seq = max(s.Seq, gap.Last)
	if gap.Ended == 0 {
		return nil
	}
	w := disconnect(s, gap.Ended)
	w.Outcome = format.OutcomeOk
	if gap.SQLState != "" {
		w.Outcome, w.SQLState = format.OutcomeError, []byte(gap.SQLState)
	}
	return d.writeFinal(s, w, nil)
}

// describes reports whether the last session message of the source is that of this session.
func describes(s *write.Source, id format.SessionID) bool {
	return len(s.Body) >= write.SessionFacts && s.ID() == id
}

// unknownSession is a session of which only the ID is known, because its session message was dropped, too.
func unknownSession(id format.SessionID) *write.Source {
	b := binary.LittleEndian.AppendUint64(nil, uint64(id.Start))
	return &write.Source{Body: binary.LittleEndian.AppendUint32(b, id.PID)}
}

// writeFinal writes a record that its process could no longer write, unless the trail has a record with its number.
func (d *drainer) writeFinal(s *write.Source, w *write.Record, count *uint64) error {
	if len(s.Body) < write.SessionFacts {
		return nil
	}
	if d.ledger.has(s.ID(), w.Seq) {
		s.Advance(w)
		return nil
	}
	if write.Check(s, w) != nil {
		return nil
	}
	d.report.Records++
	if count != nil {
		*count++
	}
	return d.writeRecord(s, w)
}

// interrupted returns the record of the statement that was running when its process died: the staged one, with
// everything that was known at its start, or one with the beginning of the text. A portal that waited for its
// client was not running: it has delivered what it was asked for.
func interrupted(r *ring.Ring, s *write.Source) *write.Record {
	f := &r.InFlight
	if staged, ok := r.Staged(); ok {
		w := *staged
		w.Seq = s.Seq + 1
		w.Outcome = format.OutcomeOk
		if !f.Counted {
			w.Duration, w.Rows, w.XID, w.Times = write.None, write.None, 0, format.Times{}
		}
		if !f.Idle {
			w.Outcome = format.OutcomeInterrupted
		}
		if write.Check(s, &w) == nil {
			return &w
		}
	}
	w := &write.Record{
		Kind: format.KindStatement, Seq: s.Seq + 1, Time: f.Time, Duration: write.None, Rows: write.None,
		Statement: f.Statement, Text: f.Text, Outcome: format.OutcomeInterrupted,
	}
	if f.Idle {
		w.Outcome = format.OutcomeOk
	}
	if uint64(f.TextLen) > uint64(len(f.Text)) {
		w.HasCut, w.CutLength = true, uint64(f.TextLen) // no hash: the rest of the text is not available
	}
	return w
}

// disconnect returns the disconnect record of a session whose process died.
func disconnect(s *write.Source, now int64) *write.Record {
	return &write.Record{
		Kind: format.KindDisconnect, Seq: s.Seq + 1, Time: now, Duration: uint64(max(now-s.ID().Start, 0)),
		Rows:    write.None,
		Outcome: format.OutcomeInterrupted, Shape: []byte{byte(format.ClassConnect), 0, 0, 0, 0},
	}
}

// gapRecord returns the gap record for records that a session dropped and could not report any more.
func gapRecord(gap *ring.Gap, now int64) *write.Record {
	w := &write.Record{Kind: format.KindGap, Seq: gap.Last + 1, Time: now, Duration: write.None, Rows: write.None}
	w.ExtraCount, w.Extra = write.EncodePairs("count", fmt.Sprint(gap.Count), "first_seq", fmt.Sprint(gap.First),
		"last_seq", fmt.Sprint(gap.Last), "reason", gapReason(gap.Reason))
	return w
}

// gapReason returns the reason of a gap for its record.
func gapReason(reason uint64) string {
	if reason != 0 {
		return "trail not writable"
	}
	return "ring full"
}
