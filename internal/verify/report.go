// The report of a verification, as text and JSON.

package verify

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/dustin/go-humanize"

	"github.com/pg-steno/pg_steno/internal/format"
	"github.com/pg-steno/pg_steno/internal/proof"
	"github.com/pg-steno/pg_steno/internal/render"
)

// Problem is an error or a warning.
type Problem struct {
	// Class is the class of problem according to FORMAT.md; empty: a warning that is not about the trail.
	Class  string `json:"class,omitempty"`
	File   string `json:"file,omitempty"`
	Offset *int64 `json:"offset,omitempty"`
	What   string `json:"what"`
	// ID is the ID of a problem for steno acknowledge.
	ID string `json:"id,omitempty"`
	// Found is when an earlier run found the problem, if a state is kept.
	Found string `json:"found,omitempty"`
	// Note is why an acknowledgment of the problem does not count any more.
	Note string `json:"note,omitempty"`
	// System is the system identifier of the trail's server.
	System uint64 `json:"-"`

	of *format.Problem
}

// problemOf returns how a problem is reported.
func problemOf(p *format.Problem) Problem {
	one := Problem{Class: p.Class.String(), File: p.File, What: p.Reason, of: p}
	if p.Offset != format.NoOffset && p.File != "" {
		one.Offset = &p.Offset
	}
	return one
}

// Acknowledged is a problem that somebody has acknowledged.
type Acknowledged struct {
	Problem
	By     string `json:"by"`
	Time   string `json:"time"`
	Reason string `json:"reason"`
	Key    string `json:"key,omitempty"` // that has signed it
	// Checked says that the signature was checked.
	Checked bool `json:"signature_checked"`
}

func (a *Acknowledged) line(zone render.Zone) string {
	signed := "not signed"
	switch {
	case a.Checked:
		signed = "signed by key " + a.Key
	case a.Key != "":
		signed = "its signature by key " + a.Key + " was not checked"
	}
	return fmt.Sprintf("%s; %s", a.Problem.line(zone),
		render.Safe(fmt.Sprintf("by %s at %s, %s: %s", a.By, zone.Times(a.Time), signed, a.Reason)))
}

func (p Problem) String() string { return p.line(render.Zone{}) }

func (p *Problem) line(zone render.Zone) string {
	var b strings.Builder
	if p.File != "" {
		b.WriteString(render.Safe(p.File))
		b.WriteString(": ")
	}
	if p.Offset != nil {
		fmt.Fprintf(&b, "offset %d: ", *p.Offset)
	}
	b.WriteString(zone.Times(render.Safe(p.What)))
	if p.Found != "" {
		b.WriteString("; first found by the run of " + zone.Times(p.Found))
	}
	if p.Note != "" {
		b.WriteString("; " + zone.Times(render.Safe(p.Note)))
	}
	return b.String()
}

// Report is the result of a verification.
type Report struct {
	Whole bool `json:"whole"`
	// NothingNew says that all problems were acknowledged.
	NothingNew bool     `json:"nothing_new"`
	Trail      []string `json:"trail"`
	// Servers are the system identifiers, if the trails belong to several servers.
	Servers  []string `json:"servers,omitempty"`
	Streams  int      `json:"streams"`
	Segments int      `json:"segments"`
	Blocks   int64    `json:"blocks"`
	// Copies counts blocks that were also found in another trail. Blocks does not include them.
	Copies       int64  `json:"copied_blocks,omitempty"`
	Records      int64  `json:"records"`
	Sessions     int    `json:"sessions"`
	OpenSessions int    `json:"open_sessions"`
	Bytes        int64  `json:"bytes"`
	First        string `json:"first_time,omitempty"`
	Last         string `json:"last_time,omitempty"`
	// EncryptedBlocks counts encrypted blocks, and UnreadBlocks those whose key was not given.
	EncryptedBlocks int64 `json:"encrypted_blocks,omitempty"`
	UnreadBlocks    int64 `json:"unread_blocks,omitempty"`

	GapRecords  uint64 `json:"gap_records"`
	LostRecords uint64 `json:"lost_records"`

	// Recorded says for each server whether everything was recorded, which is independent of whether what was
	// recorded is intact.
	Recorded []*proof.Recording `json:"recorded,omitempty"`

	Deleted  []Deleted     `json:"deleted,omitempty"`
	Branches []Branch      `json:"branches,omitempty"`
	Keyed    bool          `json:"seals_checked"` // a key was given
	Seals    []StreamSeals `json:"seals,omitempty"`
	Anchors  int           `json:"anchors,omitempty"`

	// Unreadable lists what could not be checked, such as files without permission to read.
	Unreadable     []Problem `json:"unreadable,omitempty"`
	MoreUnreadable int       `json:"more_unreadable,omitempty"`

	Problems     []Problem `json:"problems"`
	MoreProblems int       `json:"more_problems,omitempty"`
	Warnings     []Problem `json:"warnings"`
	MoreWarnings int       `json:"more_warnings,omitempty"`

	// Acknowledged are problems that were acknowledged and have not changed since.
	Acknowledged []Acknowledged `json:"acknowledged,omitempty"`
	// Failed lists demands that are not met.
	Failed []string `json:"failed,omitempty"`

	// State says what earlier runs have verified, if a state is kept.
	State *StateReport `json:"state,omitempty"`

	// SealKeys and EncryptionKeys are the IDs of keys that were not given and with which more could be checked.
	SealKeys, EncryptionKeys []string `json:"-"`

	outdated bool // segments were deleted by policy during the verification
	ends     []LastBlock
}

// StateReport says which parts of a trail this run has read, and which were read by earlier ones.
type StateReport struct {
	File string `json:"file"`
	Run  int    `json:"run"`           // its number
	Key  string `json:"key,omitempty"` // that signs the state
	// Unchecked is the key with which the state is signed, if the signature was not checked.
	Unchecked string `json:"unchecked_key,omitempty"`
	// First says that there was no state, so that nothing is known about earlier runs.
	First bool `json:"first"`
	// NotRead was read only by earlier runs, between Since and Until.
	NotRead Amount `json:"not_read"`
	Since   string `json:"not_read_since,omitempty"`
	Until   string `json:"not_read_until,omitempty"`
	// Again is what this run has read for the full pass.
	Again Amount     `json:"read_again"`
	Full  FullReport `json:"full_pass"`
}

// Amount is a part of a trail.
type Amount struct {
	Segments int   `json:"segments"`
	Blocks   int64 `json:"blocks"`
	Bytes    int64 `json:"bytes"`
}

// FullReport says when everything was last read, and how far the next full pass is.
type FullReport struct {
	Began     string `json:"began,omitempty"`
	Completed string `json:"completed,omitempty"`
	NextBegan string `json:"next_began,omitempty"`
	Read      int    `json:"next_segments_read,omitempty"`
	Segments  int    `json:"next_segments,omitempty"`
}

// Line describes the state and its signature.
func (s *StateReport) Line() string {
	signed := "NOT SIGNED: whoever can write the file decides what is read"
	switch {
	case s.Key != "":
		signed = "signed by key " + s.Key
	case s.Unchecked != "":
		signed = "its signature, by key " + s.Unchecked + ", was NOT CHECKED"
	}
	if s.First {
		return fmt.Sprintf("%s, run %d: there was none, so nothing is known of earlier; %s", s.File, s.Run, signed)
	}
	return fmt.Sprintf("%s, run %d; %s", s.File, s.Run, signed)
}

// rows returns the rows for the text.
func (s *StateReport) rows() (rows [][2]string) {
	row := func(name, format string, args ...any) {
		rows = append(rows, [2]string{name, fmt.Sprintf(format, args...)})
	}
	row("state", "%s", s.Line())
	if s.Again.Segments > 0 {
		row("again", "%s with %s (%s), for the full pass", render.Plural(s.Again.Segments, "segment"),
			render.Plural(s.Again.Blocks, "block"), humanize.Bytes(uint64(s.Again.Bytes)))
	}
	if s.NotRead.Segments > 0 {
		row("not read", "%s with %s (%s): earlier runs verified them, between %s and %s",
			render.Plural(s.NotRead.Segments, "segment"), render.Plural(s.NotRead.Blocks, "block"),
			humanize.Bytes(uint64(s.NotRead.Bytes)), s.Since, s.Until)
	}
	full := "never completed"
	if s.Full.Completed != "" {
		full = "completed at " + s.Full.Completed
		if s.Full.Began != s.Full.Completed {
			full += ", begun at " + s.Full.Began
		}
	}
	if s.Full.NextBegan != "" {
		full += fmt.Sprintf("; the next one has read %s of %s since %s", humanize.Comma(int64(s.Full.Read)),
			render.Plural(s.Full.Segments, "segment"), s.Full.NextBegan)
	}
	row("full pass", "%s", full)
	return rows
}

// limits returns how the state limits the verdict of this run.
func (s *StateReport) limits() string {
	what := ""
	if s.NotRead.Segments > 0 {
		what = fmt.Sprintf("; NOT READ NOW: %s of %s, which earlier runs verified between %s and %s",
			render.Plural(s.NotRead.Blocks, "block"), render.Plural(s.NotRead.Segments, "segment"), s.Since, s.Until)
	}
	if s.First {
		what += "; first run with this state"
	}
	switch {
	case s.Unchecked != "":
		what += "; the signature of the state was not checked"
	case s.Key == "":
		what += "; the state is not signed"
	}
	return what
}

// Damaged reports whether there are problems that were not acknowledged.
func (r *Report) Damaged() bool { return len(r.Problems)+r.MoreProblems > 0 }

// setVerdict sets the verdict.
func (r *Report) setVerdict() {
	r.NothingNew = !r.Damaged() && len(r.Unreadable)+r.MoreUnreadable == 0
	r.Whole = r.NothingNew && len(r.Acknowledged) == 0 && (r.State == nil || r.State.NotRead.Segments == 0)
}

// Ends returns the last block of each stream.
func (r *Report) Ends() []LastBlock { return r.ends }

// Warn adds a warning that is not about the contents of the trail.
func (r *Report) Warn(format string, args ...any) {
	r.Warnings = append(r.Warnings, Problem{What: fmt.Sprintf(format, args...)})
}

// Fail adds a demand that is not met.
func (r *Report) Fail(format string, args ...any) {
	r.Failed = append(r.Failed, fmt.Sprintf(format, args...))
}

// WriteJSON writes the report as one line of JSON.
func (r *Report) WriteJSON(out io.Writer) error {
	e := json.NewEncoder(render.SafeJSON(out))
	e.SetEscapeHTML(false)
	return e.Encode(r)
}

// WriteText writes the report for people.
func (r *Report) WriteText(out io.Writer, color bool, zone render.Zone) error {
	var b strings.Builder
	row := func(name, format string, args ...any) {
		fmt.Fprintf(&b, "%-9s %s\n", name, fmt.Sprintf(format, args...))
	}
	row("trail", "%s", render.Safe(strings.Join(r.Trail, " ")))
	if len(r.Servers) > 0 {
		row("servers", "%s", strings.Join(r.Servers, " "))
	}
	now := ""
	if r.State != nil {
		for _, one := range r.State.rows() {
			row(one[0], "%s", zone.Times(render.Safe(one[1])))
		}
		now = ", read now"
	}
	row("streams", "%s", humanize.Comma(int64(r.Streams)))
	row("segments", "%s%s", humanize.Comma(int64(r.Segments)), now)
	row("blocks", "%s%s", humanize.Comma(r.Blocks), now)
	row("records", "%s%s", humanize.Comma(r.Records), now)
	row("sessions", "%s, %s of them open", humanize.Comma(int64(r.Sessions)), humanize.Comma(int64(r.OpenSessions)))
	row("bytes", "%s (%s)%s", humanize.Comma(r.Bytes), humanize.Bytes(uint64(r.Bytes)), now)
	if r.First != "" {
		row("time", "%s to %s%s", zone.Times(r.First), zone.Times(r.Last), now)
	}
	if r.EncryptedBlocks > 0 {
		row("encrypted", "%s blocks, %s of them not decrypted", humanize.Comma(r.EncryptedBlocks),
			humanize.Comma(r.UnreadBlocks))
	}
	if r.GapRecords > 0 {
		row("dropped", "%s records, counted by gap records: %s", humanize.Comma(int64(r.LostRecords)),
			humanize.Comma(int64(r.GapRecords)))
	}
	for i := range r.Deleted {
		row("deleted", "%s", zone.Times(r.Deleted[i].String()))
	}
	for i := range r.Branches {
		row("branch", "%s", zone.Times(r.Branches[i].line()))
	}
	for i := range r.Seals {
		row("seals", "%s", zone.Times(r.Seals[i].Line(r.Keyed)))
	}
	if r.Anchors > 0 {
		row("anchors", "%s", humanize.Comma(int64(r.Anchors)))
	}
	list := func(title string, problems []Problem, more int) {
		for i := range problems {
			fmt.Fprintf(&b, "%s: %s\n", title, problems[i].line(zone))
		}
		if more > 0 {
			fmt.Fprintf(&b, "%s: and %s more\n", title, humanize.Comma(int64(more)))
		}
	}
	list("warning", r.Warnings, r.MoreWarnings)
	list("unreadable", r.Unreadable, r.MoreUnreadable)
	for i := range r.Acknowledged {
		fmt.Fprintf(&b, "acknowledged: %s\n", r.Acknowledged[i].line(zone))
	}
	list("damage", r.Problems, r.MoreProblems)
	for _, what := range r.Failed {
		fmt.Fprintf(&b, "failed: %s\n", zone.Times(render.Safe(what)))
	}
	verdict, paint := r.Verdict(), "\x1b[32m"
	switch {
	case len(r.Problems)+r.MoreProblems > 0:
		paint = "\x1b[31m"
	case len(r.Unreadable)+r.MoreUnreadable+len(r.Acknowledged)+len(r.Failed) > 0:
		paint = "\x1b[33m"
	}
	verdict = zone.Times(verdict)
	if color {
		verdict = paint + verdict + "\x1b[0m"
	}
	row("verdict", "%s", verdict)
	for _, one := range r.Recorded {
		for _, line := range one.Lines(len(r.Recorded) > 1) {
			row(line[0], "%s", zone.Times(render.Safe(line[1])))
		}
	}
	_, err := io.WriteString(out, b.String())
	return err
}

// Verdict returns the verdict as a sentence.
func (r *Report) Verdict() string {
	if r.State != nil {
		return r.verdict() + r.State.limits()
	}
	return r.verdict()
}

func (r *Report) verdict() string {
	intact := "intact: every"
	if r.State != nil && r.State.NotRead.Segments > 0 {
		intact = "intact where it was read now: every"
	}
	verdict := intact + " checksum, chain hash and sequence number is correct"
	if r.Keyed && r.UnreadBlocks == 0 {
		verdict = intact + " checksum, chain hash, sequence number and seal is correct"
	}
	if r.UnreadBlocks > 0 {
		verdict = intact + " checksum and chain hash is correct; encrypted records were not checked"
	}
	if n := len(r.Acknowledged); n > 0 {
		verdict = "nothing new: " + render.Plural(n, "problem") + ", acknowledged as it is"
		if n > 1 {
			verdict = "nothing new: " + render.Plural(n, "problem") + ", all acknowledged as they are"
		}
	}
	switch damaged, unreadable := len(r.Problems)+r.MoreProblems, len(r.Unreadable)+r.MoreUnreadable; {
	case damaged > 0:
		verdict = "DAMAGED: " + render.Plural(damaged, "problem")
		if unreadable > 0 {
			verdict += "; and " + render.Plural(unreadable, "place") + " could not be checked"
		}
	case unreadable > 0:
		verdict = "NOT CHECKED: " + render.Plural(unreadable, "place") +
			" could not be read; nothing that was read is damaged"
	}
	return verdict
}

// Outdated reports whether segments were deleted by policy while the trail was read, so that it should be verified
// again.
func (r *Report) Outdated() bool { return r.outdated }
