// The report of a verification, as text and JSON.

package verify

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/dustin/go-humanize"

	"github.com/pg-steno/pg_steno/internal/proof"
	"github.com/pg-steno/pg_steno/internal/render"
)

// Problem is an error or a warning.
type Problem struct {
	File   string `json:"file,omitempty"`
	Offset *int64 `json:"offset,omitempty"`
	What   string `json:"what"`
	// ID is what steno acknowledge calls a problem.
	ID string `json:"id,omitempty"`
	// Note is why an acknowledgment of it does not count any more.
	Note string `json:"note,omitempty"`
	// System is the system identifier of the server of the trail.
	System uint64 `json:"-"`
}

// Acknowledged is a problem that somebody has acknowledged.
type Acknowledged struct {
	Problem
	By     string `json:"by"`
	Time   string `json:"time"`
	Reason string `json:"reason"`
	Key    string `json:"key,omitempty"` // that signed it
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
	return fmt.Sprintf("%s; %s", a.Problem.line(zone), render.Safe(fmt.Sprintf("by %s at %s, %s: %s", a.By, zone.Times(a.Time), signed, a.Reason)))
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
	if p.Note != "" {
		b.WriteString("; " + zone.Times(render.Safe(p.Note)))
	}
	return b.String()
}

// Report is the result of a verification.
type Report struct {
	Whole bool `json:"whole"`
	// NothingNew says that there is no problem but those that were acknowledged.
	NothingNew bool     `json:"nothing_new"`
	Trail      []string `json:"trail"`
	// Servers are the system identifiers if the trails are of several servers.
	Servers  []string `json:"servers,omitempty"`
	Streams  int      `json:"streams"`
	Segments int      `json:"segments"`
	Blocks   int64    `json:"blocks"`
	// Copies counts blocks that were also found in another trail, and are not in Blocks.
	Copies       int64  `json:"copied_blocks,omitempty"`
	Records      int64  `json:"records"`
	Sessions     int    `json:"sessions"`
	OpenSessions int    `json:"open_sessions"`
	Bytes        int64  `json:"bytes"`
	First        string `json:"first_time,omitempty"`
	Last         string `json:"last_time,omitempty"`
	// EncryptedBlocks counts blocks with encrypted payloads, and UnreadBlocks those of them for which there was no key.
	EncryptedBlocks int64 `json:"encrypted_blocks,omitempty"`
	UnreadBlocks    int64 `json:"unread_blocks,omitempty"`

	GapRecords  uint64 `json:"gap_records"`
	LostRecords uint64 `json:"lost_records"`

	// Recorded says, for each server, whether everything was recorded. That is another question than whether what was
	// recorded is intact.
	Recorded []*proof.Recording `json:"recorded,omitempty"`

	Deleted  []Deleted     `json:"deleted,omitempty"`
	Branches []Branch      `json:"branches,omitempty"`
	Keyed    bool          `json:"seals_checked"` // a key was given
	Seals    []StreamSeals `json:"seals,omitempty"`
	Anchors  int           `json:"anchors,omitempty"`

	// Unreadable lists what could not be checked, such as files that may not be read.
	Unreadable     []Problem `json:"unreadable,omitempty"`
	MoreUnreadable int       `json:"more_unreadable,omitempty"`

	Problems     []Problem `json:"problems"`
	MoreProblems int       `json:"more_problems,omitempty"`
	Warnings     []Problem `json:"warnings"`
	MoreWarnings int       `json:"more_warnings,omitempty"`

	// Acknowledged are problems that somebody has acknowledged, as they are.
	Acknowledged []Acknowledged `json:"acknowledged,omitempty"`
	// Failed is what was demanded of the trail and is not so.
	Failed []string `json:"failed,omitempty"`

	outdated bool // segments were deleted by policy during the verification
	ends     []Last
}

// Damaged reports whether there are problems that were not acknowledged.
func (r *Report) Damaged() bool { return len(r.Problems)+r.MoreProblems > 0 }

// judge sets what the report comes to.
func (r *Report) judge() {
	r.NothingNew = !r.Damaged() && len(r.Unreadable)+r.MoreUnreadable == 0
	r.Whole = r.NothingNew && len(r.Acknowledged) == 0
}

// Ends are the last blocks of the streams.
func (r *Report) Ends() []Last { return r.ends }

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
	row("streams", "%s", humanize.Comma(int64(r.Streams)))
	row("segments", "%s", humanize.Comma(int64(r.Segments)))
	row("blocks", "%s", humanize.Comma(r.Blocks))
	row("records", "%s", humanize.Comma(r.Records))
	row("sessions", "%s, %s of them open", humanize.Comma(int64(r.Sessions)), humanize.Comma(int64(r.OpenSessions)))
	row("bytes", "%s (%s)", humanize.Comma(r.Bytes), humanize.Bytes(uint64(r.Bytes)))
	if r.First != "" {
		row("time", "%s to %s", zone.Times(r.First), zone.Times(r.Last))
	}
	if r.EncryptedBlocks > 0 {
		row("encrypted", "%s blocks, %s of them not decrypted", humanize.Comma(r.EncryptedBlocks), humanize.Comma(r.UnreadBlocks))
	}
	if r.GapRecords > 0 {
		row("dropped", "%s records, counted by gap records: %s", humanize.Comma(int64(r.LostRecords)), humanize.Comma(int64(r.GapRecords)))
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

// Verdict is what the report comes to, in a sentence.
func (r *Report) Verdict() string {
	verdict := "intact: every checksum, chain hash and sequence number is correct"
	if r.Keyed && r.UnreadBlocks == 0 {
		verdict = "intact: every checksum, chain hash, sequence number and seal is correct"
	}
	if r.UnreadBlocks > 0 {
		verdict = "intact: every checksum and chain hash is correct; encrypted records were not checked"
	}
	if n := len(r.Acknowledged); n > 0 {
		verdict = "nothing new: " + plural(n, "problem") + ", acknowledged as it is"
		if n > 1 {
			verdict = "nothing new: " + plural(n, "problem") + ", all acknowledged as they are"
		}
	}
	switch damaged, unreadable := len(r.Problems)+r.MoreProblems, len(r.Unreadable)+r.MoreUnreadable; {
	case damaged > 0:
		verdict = "DAMAGED: " + plural(damaged, "problem")
		if unreadable > 0 {
			verdict += "; and " + plural(unreadable, "place") + " could not be checked"
		}
	case unreadable > 0:
		verdict = "NOT CHECKED: " + plural(unreadable, "place") + " could not be read; nothing that was read is damaged"
	}
	return verdict
}

func plural(n int, what string) string {
	if n != 1 {
		what += "s"
	}
	return humanize.Comma(int64(n)) + " " + what
}

// Outdated reports whether segments were deleted by policy while the trail was read, so that it should be verified
// again.
func (r *Report) Outdated() bool { return r.outdated }
