// The verdict on a proof, as text and JSON, and the proof's records.

package proof

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/dustin/go-humanize"

	"github.com/pg-steno/pg_steno/internal/format"
	"github.com/pg-steno/pg_steno/internal/query"
	"github.com/pg-steno/pg_steno/internal/render"
	"github.com/pg-steno/pg_steno/internal/trail"
)

// Report is the result of checking a proof.
type Report struct {
	File   string `json:"file"`
	Proved bool   `json:"proved"`
	// Complete says that, in addition, nothing is known that the answer could lack.
	Complete bool      `json:"complete"`
	Question *Question `json:"question,omitempty"`
	System   uint64    `json:"system_id,string,omitempty"`
	Matches  int64     `json:"matches"`
	Sessions int       `json:"sessions"`
	// Names is the time of which all renames of the question's names are known; nil: the question has no names that
	// renames change.
	Names *KnownRenames `json:"names,omitempty"`
	// AsOf is the time of the seal up to which records of the range were searched.
	AsOf    string   `json:"as_of,omitempty"`
	Streams []Stream `json:"streams"`
	// Anchors counts anchors that name a block of the proof.
	Anchors int `json:"anchors"`

	// Problems are why nothing is proved, Uncovered the parts of the range about which
	// nothing is proved, and Exceptions what the answer may lack although everything else is
	// proved. Stopped are the times of the range in which the server did not run, as its WAL and
	// its control file show; they take nothing from the answer. Unread is why records could not be read.
	Problems   []string `json:"problems"`
	Uncovered  []string `json:"uncovered"`
	Exceptions []string `json:"exceptions"`
	Stopped    []string `json:"stopped"`
	Unread     string   `json:"unreadable,omitempty"`
	// MissingInputs are keys and anchors that were not given, and without which less is proved, or nothing.
	MissingInputs []MissingInput `json:"-"`

	eval    *evaluator
	index   *trail.Index
	matched atomic.Int64
}

// MissingInput is something that the user can give to check a proof.
type MissingInput int

// What can be given.
const (
	PublicKey MissingInput = iota
	EncryptionKey
	Anchors
)

func (r *Report) noteLack(l MissingInput) {
	if !slices.Contains(r.MissingInputs, l) {
		r.MissingInputs = append(r.MissingInputs, l)
	}
}

// KnownRenames is a time of which a proof has all renames of the question's names.
type KnownRenames struct {
	Since string `json:"since,omitempty"` // absent: the beginning of the trail
	Until string `json:"until"`
}

func (k *KnownRenames) String() string {
	since := "the beginning of the trail"
	if k.Since != "" {
		since = k.Since
	}
	return "records have the names of their time; what was renamed before " + since +
		" is found by its new name only, and what was renamed since " + k.Until + " by its former one"
}

// Stream is what a proof has of a stream.
type Stream struct {
	Stream  uint32 `json:"stream"`
	Blocks  uint64 `json:"blocks"`
	LeftOut uint64 `json:"left_out"`
	// LeftOutInRange counts those that can have records of the range.
	LeftOutInRange uint64 `json:"left_out_in_range"`
	From           string `json:"from,omitempty"` // absent: the stream's beginning
	Until          string `json:"until"`
	Block          uint64 `json:"sealed_block"` // by the last seal of the proof
	Key            string `json:"key"`
	Seals          int    `json:"seals"`
}

func (r *Report) addStream(st *stream) {
	last := st.seals[len(st.seals)-1]
	one := Stream{
		Stream: st.number, Blocks: uint64(len(st.blocks)), LeftOut: st.skipped, LeftOutInRange: st.skippedInRange,
		Until: render.Time(last.Time), Block: last.Block, Key: last.Key, Seals: len(st.seals),
	}
	if st.from != format.MinTime {
		one.From = render.Time(st.from)
	}
	r.Streams = append(r.Streams, one)
}

func (r *Report) finish() {
	r.Proved = len(r.Problems)+len(r.Uncovered) == 0 && r.Unread == ""
	r.Complete = r.Proved && len(r.Exceptions) == 0
	for _, list := range []*[]string{&r.Problems, &r.Uncovered, &r.Exceptions, &r.Stopped} {
		if *list == nil {
			*list = []string{}
		}
		const most = 1000
		if n := len(*list); n > most {
			*list = append((*list)[:most:most], fmt.Sprintf("and %s more", humanize.Comma(int64(n-most))))
		}
	}
}

// WriteJSON writes the report as one line of JSON.
func (r *Report) WriteJSON(out io.Writer) error {
	e := json.NewEncoder(render.SafeJSON(out))
	e.SetEscapeHTML(false)
	return e.Encode(r)
}

// WriteText writes the report for people.
func (r *Report) WriteText(out io.Writer, color bool) error {
	var b strings.Builder
	row := func(name, format string, args ...any) {
		fmt.Fprintf(&b, "%-9s %s\n", name, render.Safe(fmt.Sprintf(format, args...)))
	}
	row("proof", "%s", r.File)
	if q := r.Question; q != nil {
		row("question", "%s", q)
		if r.System != 0 {
			row("server", "system identifier %d", r.System)
		}
		for i := range r.Streams {
			s := &r.Streams[i]
			row("stream", "%s", s.line(q))
		}
		if r.Anchors > 0 {
			row("anchors", "%s agree with the proof", render.Plural(r.Anchors, "anchor"))
		}
		switch {
		case q.Record != "":
		case r.indexed():
			row("basis", "the server's own indexes, which are sealed, say that the blocks that are left out have "+
				"nothing of the answer")
		default:
			row("basis", "all blocks of the range, in which the sequence numbers of %s have no gaps",
				render.Plural(r.Sessions, "session"))
		}
		if r.Names != nil {
			row("names", "%s", r.Names)
		}
		if r.AsOf != "" {
			row("as of", "%s: what was written later is not in the answer; of a statement that was running then, "+
				"only a start record can be", r.AsOf)
		}
	}
	list := func(title string, all []string) {
		for _, one := range all {
			row(title, "%s", one)
		}
	}
	list("stopped:", r.Stopped)
	list("except:", r.Exceptions)
	list("uncovered:", r.Uncovered)
	list("problem:", r.Problems)
	verdict, paint := r.verdict()
	if color {
		verdict = paint + verdict + "\x1b[0m"
	}
	fmt.Fprintf(&b, "%-9s %s\n", "verdict", verdict)
	_, err := io.WriteString(out, b.String())
	return err
}

// indexed reports whether the answer relies on indexes within the range.
func (r *Report) indexed() bool {
	return r.Question.Record == "" && slices.ContainsFunc(r.Streams, func(s Stream) bool {
		return s.LeftOutInRange > 0
	})
}

func (r *Report) verdict() (text, paint string) {
	const green, yellow, red = "\x1b[32m", "\x1b[33m", "\x1b[31m"
	switch {
	case len(r.Problems) > 0:
		return "NOT PROVED", red
	case r.Unread != "":
		return "NOT CHECKED: " + render.Safe(r.Unread), yellow
	case r.Question.Record != "":
		return "PROVED: the record is in the trail", green
	}
	what := fmt.Sprintf("there are exactly %s records that match", humanize.Comma(r.Matches))
	switch r.Matches {
	case 0:
		what = "there is no record that matches"
	case 1:
		what = "there is exactly 1 record that matches"
	}
	switch {
	case len(r.Uncovered) > 0:
		return "NOT PROVED for the whole range: the proof has " + render.Plural(r.Matches, "record") +
			" that match, but see what is uncovered", red
	case len(r.Exceptions) > 0:
		return "PROVED, with exceptions: " + what + " in the trail, but see what it may lack", yellow
	}
	if r.Names != nil {
		what += " by the names of their time"
	}
	checked := "every seal, chain hash and sequence number is correct"
	if r.indexed() {
		checked = "every seal and chain hash is correct, the server's indexes exclude what is left out"
	}
	return "PROVED, complete: " + what + "; " + checked +
		", nothing was lost, and what was asked for was recorded throughout", green
}

func (s *Stream) line(q *Question) string {
	line := fmt.Sprintf("%d: %s blocks", s.Stream, humanize.Comma(int64(s.Blocks)))
	if s.LeftOut > 0 {
		line += fmt.Sprintf(", and %s left out", humanize.Comma(int64(s.LeftOut)))
	}
	if q.Record == "" {
		from := "its beginning"
		if s.From != "" {
			from = s.From
		}
		line += ", from " + from
	}
	return line + fmt.Sprintf("; sealed up to block %s at %s by key %s", humanize.Comma(int64(s.Block)),
		s.Until, s.Key)
}

// ---- the records ----

// Merge emits the lines of the matching records, in the order of their times, as a renderer makes them.
func (r *Report) Merge(ctx context.Context, newRenderer func() render.Renderer, warn func(error),
	emit func([]byte) error) error {
	if r.index == nil {
		return nil
	}
	return r.merge(ctx, func() trail.Formatter {
		return &showing{chosen{must(newEvaluator(r.Question))}, newRenderer()}
	}, warn, emit)
}

func (r *Report) merge(ctx context.Context, newFormatter func() trail.Formatter, warn func(error),
	emit func([]byte) error) error {
	return r.index.Merge(ctx, trail.MergeOptions{
		Since: r.eval.since, Until: r.eval.until, NewFormatter: newFormatter, Rollbacks: true, Warn: warn,
	}, emit)
}

// chosen keeps the matching records.
type chosen struct{ *evaluator }

func (c chosen) Start(*trail.BlockRef)         { c.reset() }
func (c chosen) Keep(r *format.Record) bool    { return c.matches(r) }
func (c chosen) MayKeep(r *format.Record) bool { return c.mayMatch(r) }

// counting counts the matching records, and collects renames.
type counting struct {
	chosen
	to      *atomic.Int64
	renamed *query.Hidden
	names   *query.NamesReader
}

func (c *counting) Start(ref *trail.BlockRef) {
	c.chosen.Start(ref)
	c.names.Start()
}

func (c *counting) Keep(r *format.Record) bool {
	c.renamed.NoteRenames(c.filter, r)
	c.names.Record(r)
	return c.chosen.Keep(r)
}

func (c *counting) MayKeep(r *format.Record) bool {
	return c.chosen.MayKeep(r) || c.filter.MayRename(r)
}

func (c *counting) Append(dst []byte, _ *format.Record) []byte {
	c.to.Add(1)
	return dst
}

// showing makes lines of the matching records.
type showing struct {
	chosen
	render.Renderer
}

func (s *showing) Start(ref *trail.BlockRef) {
	s.chosen.Start(ref)
	s.Renderer.Start(ref)
}
