// The report of a recovery: what was done, and what is lost.

package recovery

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/dustin/go-humanize"

	"github.com/pg-steno/pg_steno/internal/format"
	"github.com/pg-steno/pg_steno/internal/render"
	"github.com/pg-steno/pg_steno/internal/verify"
)

// Report states what was done, and exactly what is lost.
type Report struct {
	Trail     string       `json:"trail"`
	Copy      string       `json:"copy"`
	Evidence  string       `json:"evidence,omitempty"` // where the original trail is now, if the copy took its place
	SystemID  string       `json:"system_identifier,omitempty"`
	Lost      bool         `json:"lost"`
	Streams   []Stream     `json:"streams"`
	Rings     []Ring       `json:"ring_files"`
	NewStream *int64       `json:"new_stream,omitempty"`
	Gaps      []SessionGap `json:"session_gaps"`
	MoreGaps  int          `json:"more_session_gaps,omitempty"`
	Missing   uint64       `json:"missing_records"`
	Blind     bool         `json:"sequence_numbers_unknown,omitempty"`
	Verify    Verified     `json:"verify"`
	Foreign   []string     `json:"not_copied,omitempty"`
	Ignored   []string     `json:"ring_files_ignored,omitempty"` // of accounts that are not trusted
	Errors    []string     `json:"errors,omitempty"`
}

// Stream is a stream of the trail.
type Stream struct {
	Stream   uint32 `json:"stream"`
	Segments int    `json:"segments"`
	Blocks   int64  `json:"blocks"`
	Records  int64  `json:"records"`
	Bytes    int64  `json:"bytes"`
	Unread   int64  `json:"unreadable_blocks,omitempty"` // whole, but encrypted or of a later format
	// FirstSegment is the first existing segment, if it is not segment 1.
	FirstSegment uint64   `json:"first_segment,omitempty"`
	Headers      []Header `json:"headers_made_anew,omitempty"`
	Losses       []Loss   `json:"losses"`
	Torn         []Torn   `json:"unfinished,omitempty"`

	present numbers // of blocks
}

// Place is where something is wrong in a file.
type Place struct {
	File   string `json:"file"`
	Offset *int64 `json:"offset,omitempty"`
	Bytes  int64  `json:"bytes,omitempty"`
	What   string `json:"what"`
}

// Header is a segment header that was rebuilt.
type Header struct {
	Place
	Proven bool `json:"proven"`
}

// Loss is a range of blocks of a stream that are not in the copy. Fields that are not known are omitted.
type Loss struct {
	FirstBlock uint64  `json:"first_block,omitempty"`
	LastBlock  uint64  `json:"last_block,omitempty"`
	Blocks     *uint64 `json:"blocks,omitempty"`
	Records    *uint64 `json:"records,omitempty"`
	Salvaged   int     `json:"salvaged_records"`
	Elsewhere  bool    `json:"out_of_place,omitempty"` // all of them are elsewhere in the stream
	Places     []Place `json:"places"`

	firstRecord uint64
	headers     []format.BlockHeader
}

// endBefore ends a loss before the whole block h.
func (l *Loss) endBefore(h *format.BlockHeader) {
	if l.FirstBlock == 0 || h.Number < l.FirstBlock || h.FirstRecord < l.firstRecord {
		return
	}
	blocks, records := h.Number-l.FirstBlock, h.FirstRecord-l.firstRecord
	l.Blocks, l.Records = &blocks, &records
	l.LastBlock = h.Number - 1
	if blocks == 0 {
		l.FirstBlock, l.LastBlock = 0, 0
	}
}

// atEnd ends a loss that no whole block follows: only the headers of the damaged blocks tell what it contains.
func (l *Loss) atEnd() {
	if l.Blocks != nil || l.FirstBlock == 0 || len(l.headers) != len(l.Places) {
		return
	}
	next, record := l.FirstBlock, l.firstRecord
	for _, h := range l.headers {
		if h.Number != next || h.FirstRecord != record {
			return
		}
		next, record = h.Number+1, h.FirstRecord+uint64(h.Records)
	}
	l.endBefore(&format.BlockHeader{Number: next, FirstRecord: record})
}

// Torn is an unfinished write at the end of a stream.
type Torn struct {
	Place
	Block    uint64  `json:"block,omitempty"`
	Records  *uint32 `json:"records,omitempty"`
	Salvaged int     `json:"salvaged_records"`
	InRings  bool    `json:"in_ring_file"` // its records were in a ring file

	segment uint64
}

// Ring is a ring file.
type Ring struct {
	File        string   `json:"file"`
	Created     string   `json:"created"`
	Rings       int      `json:"rings"`
	Published   uint64   `json:"published_records"`
	InTrail     uint64   `json:"already_in_trail"`
	Records     uint64   `json:"recovered_records"` // including those of step 3
	Sessions    uint64   `json:"interrupted_sessions"`
	Interrupted uint64   `json:"interrupted_statements"`
	Lost        []string `json:"lost"`

	parts uint64
}

// Verified is the result of steno verify for the copy.
type Verified struct {
	Whole        bool             `json:"whole"`
	Problems     []verify.Problem `json:"problems"`
	MoreProblems int              `json:"more_problems,omitempty"`
	Warnings     []verify.Problem `json:"warnings"`
	MoreWarnings int              `json:"more_warnings,omitempty"`
}

// maxGaps is the maximum number of gaps of sessions that are listed one by one.
const maxGaps = 1000

func (r *Report) missing(l *ledger, partial bool) {
	r.Blind = l.blind
	if !l.blind {
		var missing []SessionGap
		missing, r.Missing = l.gaps(partial)
		if len(missing) > maxGaps {
			missing, r.MoreGaps = missing[:maxGaps], len(missing)-maxGaps
		}
		r.Gaps = append(r.Gaps, missing...)
	}
	for i := range r.Streams {
		s := &r.Streams[i]
		for k := range s.Losses {
			l := &s.Losses[k]
			l.atEnd()
			l.Elsewhere = l.FirstBlock > 0 && l.LastBlock > 0 && s.present.hasAll(l.FirstBlock, l.LastBlock)
		}
	}
}

func (r *Report) salvaged(d *damaged, n int) {
	s := &r.Streams[d.stream]
	if d.torn >= 0 {
		s.Torn[d.torn].Salvaged += n
	} else {
		s.Losses[d.loss].Salvaged += n
	}
}

// settle determines whether anything is lost or damaged.
func (r *Report) settle() {
	r.Lost = !r.Verify.Whole || len(r.Gaps) > 0 || len(r.Errors) > 0
	for i := range r.Streams {
		s := &r.Streams[i]
		r.Lost = r.Lost || len(s.Losses) > 0
		for k := range s.Torn {
			t := &s.Torn[k]
			// without a complete header, it is not known what the write contained
			r.Lost = r.Lost || !t.InRings && (t.Records == nil && t.Bytes > 0 || t.Records != nil && *t.Records > 0)
		}
		for _, h := range s.Headers {
			r.Lost = r.Lost || !h.Proven
		}
	}
	for i := range r.Rings {
		r.Lost = r.Lost || len(r.Rings[i].Lost) > 0
	}
}

// unchanged reports whether the copy is the same as the trail.
func (r *Report) unchanged() bool {
	if r.NewStream != nil || len(r.Rings) > 0 || len(r.Errors) > 0 {
		return false
	}
	for i := range r.Streams {
		if s := &r.Streams[i]; len(s.Losses) > 0 || len(s.Torn) > 0 || len(s.Headers) > 0 {
			return false
		}
	}
	return true
}

// WriteJSON writes the report as one line of JSON.
func (r *Report) WriteJSON(out io.Writer) error {
	e := json.NewEncoder(render.SafeJSON(out))
	e.SetEscapeHTML(false)
	return e.Encode(r)
}

func (p Place) String() string {
	s := render.Safe(p.File)
	if p.Offset != nil {
		s += fmt.Sprintf(": offset %d", *p.Offset)
		if p.Bytes > 0 {
			s += fmt.Sprintf(", %d bytes", p.Bytes)
		}
	}
	return s + ": " + render.Safe(p.What)
}

// WriteText writes the report for people.
func (r *Report) WriteText(out io.Writer, color bool) error {
	var b strings.Builder
	line := func(name, format string, args ...any) {
		fmt.Fprintf(&b, "%-9s %s\n", name, fmt.Sprintf(format, args...))
	}
	line("trail", "%s", render.Safe(r.Trail))
	line("copy", "%s", render.Safe(r.Copy))
	if r.Evidence != "" {
		line("evidence", "%s", render.Safe(r.Evidence))
	}
	for i := range r.Streams {
		r.Streams[i].text(line)
	}
	for i := range r.Rings {
		r.Rings[i].text(line)
	}
	if r.NewStream != nil {
		line("new", "stream %d of the copy contains what was recovered", *r.NewStream)
	}
	for _, g := range r.Gaps {
		if g.First == g.Last {
			line("missing", "session %s: record %d", g.Session, g.First)
		} else {
			line("missing", "session %s: records %d to %d", g.Session, g.First, g.Last)
		}
	}
	if r.MoreGaps > 0 {
		line("missing", "and in %s more places", humanize.Comma(int64(r.MoreGaps)))
	}
	for _, path := range r.Foreign {
		line("left out", "%s: does not belong to a trail", render.Safe(path))
	}
	for _, e := range r.Ignored {
		line("ignored", "%s", render.Safe(e))
	}
	for _, e := range r.Errors {
		line("error", "%s", render.Safe(e))
	}
	for _, p := range r.Verify.Warnings {
		line("warning", "%s", p)
	}
	for _, p := range r.Verify.Problems {
		line("verify", "%s", p)
	}
	if n := r.Verify.MoreProblems; n > 0 {
		line("verify", "and %s more", humanize.Comma(int64(n)))
	}
	verdict, paint := "nothing is lost, and the copy is intact", "\x1b[32m"
	if r.Lost {
		verdict, paint = r.verdict(), "\x1b[31m"
	}
	if color {
		verdict = paint + verdict + "\x1b[0m"
	}
	line("verdict", "%s", verdict)
	_, err := io.WriteString(out, b.String())
	return err
}

func (r *Report) verdict() string {
	verdict := "LOST OR DAMAGED: "
	switch {
	case r.Blind:
		verdict += "it is not known how many records are missing, because some blocks cannot be read here"
	case r.Missing == 0:
		verdict += "no record between two existing ones is missing"
	default:
		verdict += render.Plural(r.Missing, "record") + " missing between existing ones"
	}
	if !r.Verify.Whole {
		verdict += "; steno verify will report damage there in the copy"
	}
	return verdict
}

func (s *Stream) text(line func(name, format string, args ...any)) {
	line(fmt.Sprintf("stream %d", s.Stream), "%s, %s, %s (%s) copied unchanged", render.Plural(s.Segments, "segment"),
		render.Plural(s.Blocks, "block"), render.Plural(s.Records, "record"), humanize.Bytes(uint64(s.Bytes)))
	if s.FirstSegment > 0 {
		line("", "  begins with segment %d: what came before is not counted here", s.FirstSegment)
	}
	if s.Unread > 0 {
		line("", "  %s of them encrypted or of a later format: copied, but not examined",
			render.Plural(s.Unread, "block"))
	}
	for _, h := range s.Headers {
		line("", "  %s", h.Place)
	}
	for i := range s.Losses {
		l := &s.Losses[i]
		line("lost", "%s", l)
		for _, p := range l.Places {
			line("", "  %s", p)
		}
	}
	for i := range s.Torn {
		t := &s.Torn[i]
		records := "the number of its records is not known"
		if t.Records != nil {
			records = "it had " + render.Plural(*t.Records, "record")
		}
		switch {
		case t.InRings:
			records += ", which were in the ring file"
		case t.Records == nil || *t.Records > 0:
			records += ", and no given ring file has them"
		}
		if t.Salvaged > 0 {
			records += fmt.Sprintf("; %d salvaged, unproven", t.Salvaged)
		}
		line("cut off", "unfinished write at the end: %s", records)
		line("", "  %s", t.Place)
	}
}

func (l *Loss) String() string {
	var s string
	switch {
	case l.Blocks == nil && l.FirstBlock > 0:
		s = fmt.Sprintf("from block %d on: the number of blocks and records is not known", l.FirstBlock)
	case l.Blocks == nil:
		s = "the number of blocks and records is not known"
	case l.Elsewhere && l.FirstBlock == l.LastBlock:
		s = fmt.Sprintf("block %d is not in its place; it is elsewhere in the stream", l.FirstBlock)
	case l.Elsewhere:
		s = fmt.Sprintf("blocks %d to %d are not in their place; they are elsewhere in the stream", l.FirstBlock,
			l.LastBlock)
	case *l.Blocks == 0:
		s = "not a block: these bytes are superfluous"
	case l.FirstBlock == l.LastBlock:
		s = fmt.Sprintf("block %d, %s", l.FirstBlock, render.Plural(*l.Records, "record"))
	default:
		s = fmt.Sprintf("blocks %d to %d, %s", l.FirstBlock, l.LastBlock, render.Plural(*l.Records, "record"))
	}
	if l.Salvaged > 0 {
		s += fmt.Sprintf("; %d of them salvaged, unproven", l.Salvaged)
	}
	return s
}

func (r *Ring) text(line func(name, format string, args ...any)) {
	line("rings", "%s: %s published, %s of them already in the trail", render.Safe(r.File),
		render.Plural(r.Published, "record"), humanize.Comma(int64(r.InTrail)))
	line("", "  %s recovered, with %s interrupted and the ends of %s", render.Plural(r.Records, "record"),
		render.Plural(r.Interrupted, "statement"), render.Plural(r.Sessions, "session"))
	for _, what := range r.Lost {
		line("lost", "%s", render.Safe(what))
	}
}
