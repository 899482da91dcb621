// Package report sums up a period of a trail for people: one page that stands alone, or the same
// contents as JSON or Markdown.
//
// It reads records with package trail, selects them with package query, and includes the verdicts of
// packages verify and proof, which the caller and Make obtain. It knows no flags: the caller provides a
// function that turns criteria into a command line. What must stay true: each count is the exact number of
// records that the command behind it shows, and memory is bounded however many names a trail has.
//
// In the order in which a report is made:
//
//	tally.go       counting in bounded memory, and the first records behind each figure
//	collect.go     the pass over the records
//	command.go     the "steno cat" command that shows all records behind a figure
//	keys.go        the key figures
//	exports.go     exports of data: what of it is counted, and its section
//	sections.go    the other sections, made of what was counted
//	compliance.go  the same, in the order of the requirements of a standard
//	chart.go       charts, drawn with package page
//	html.go        the page; markdown.go: the same as Markdown
package report

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/dustin/go-humanize"

	"github.com/pg-steno/pg_steno/internal/format"
	"github.com/pg-steno/pg_steno/internal/proof"
	"github.com/pg-steno/pg_steno/internal/query"
	"github.com/pg-steno/pg_steno/internal/render"
	"github.com/pg-steno/pg_steno/internal/trail"
	"github.com/pg-steno/pg_steno/internal/verify"
)

// Options say what a report is about.
type Options struct {
	Index *trail.Index
	// Criteria and Within choose the records. Filter is the same as the user has written it.
	Criteria query.Criteria
	Within   query.Range
	Filter   string
	// Command returns a command that shows the records of criteria.
	Command func(*query.Criteria, query.Range) string
	// Zone is the time zone of clocks and working hours, ZoneName what it is called.
	Zone     *time.Location
	ZoneName string
	Trails   []string
	// Verify is the result of verifying the whole trail.
	Verify *verify.Report
	// Standard is the standard whose requirements are listed; empty: none.
	Standard string
	Version  string
	Now      time.Time
	// Warn receives what is wrong in the trail. It is called by one goroutine at a time.
	Warn func(error)
}

// Report is what a report says. All texts are plain: each format escapes them.
type Report struct {
	Title   string   `json:"title"`
	Made    string   `json:"made"`
	Version string   `json:"version"`
	Trails  []string `json:"trails"`
	Hosts   []string `json:"hosts,omitempty"`
	Since   string   `json:"since"` // of the period
	Until   string   `json:"until"`
	First   string   `json:"first_record,omitempty"`
	Last    string   `json:"last_record,omitempty"`
	Zone    string   `json:"time_zone"`
	Filter  string   `json:"filter,omitempty"`
	Verdict Verdict  `json:"verdict"`
	// Recorded says for each server whether everything was recorded in the period.
	Recorded []*proof.Recording `json:"recorded"`
	Figures  []Figure           `json:"figures"`
	Standard *Standard          `json:"compliance,omitempty"`
	Sections []Section          `json:"sections"`
	Notes    []string           `json:"notes"`
}

// Verdict is what verifying the trail has found.
type Verdict struct {
	Intact   bool     `json:"intact"`
	Complete bool     `json:"complete"` // everything could be read
	Text     string   `json:"text"`
	Facts    []Fact   `json:"facts"`
	Damage   []string `json:"damage,omitempty"`
	Unread   []string `json:"unreadable,omitempty"`
	Warnings []string `json:"warnings,omitempty"`
	// NotRead is the part of the trail that this verification skipped because an earlier one had read it.
	NotRead *verify.Amount `json:"not_read,omitempty"`
}

// Title is the verdict in a few words.
func (v *Verdict) Title() string {
	switch {
	case !v.Intact:
		return "The trail is damaged"
	case !v.Complete:
		return "The trail could not be checked completely"
	case v.NotRead != nil:
		return "The trail is intact where it was read now"
	}
	return "The trail is intact"
}

// Fact is a line of a verdict: a name, and a text about it.
type Fact struct {
	Name string `json:"name"`
	Text string `json:"text"`
}

// Figure is a number, and the records behind it.
type Figure struct {
	ID      string  `json:"id"`
	Name    string  `json:"name"`
	Front   bool    `json:"-"` // it is at the top
	Alarm   bool    `json:"-"`
	Section string  `json:"section,omitempty"`
	Records Records `json:"records"`
}

// Records are those behind a figure: how many, the first ones, and the command that shows all.
type Records struct {
	Label string `json:"label,omitempty"`
	Count int64  `json:"count"`
	// RolledBack and Unknown count the successful statements that were rolled back with their transaction, and
	// those for which the trail does not say whether they were.
	RolledBack int64     `json:"rolled_back,omitempty"`
	Unknown    int64     `json:"unknown,omitempty"`
	Effects    string    `json:"-"` // the same in words
	Command    string    `json:"command,omitempty"`
	Samples    []*Sample `json:"samples,omitempty"`
}

// number returns the count in words, with the number of records that did not take effect.
func (r *Records) number() string {
	if r.Effects == "" {
		return humanize.Comma(r.Count)
	}
	return humanize.Comma(r.Count) + ", " + r.Effects
}

// Section is a part of the report.
type Section struct {
	ID      string   `json:"id"`
	Title   string   `json:"title"`
	About   string   `json:"about"`
	Summary string   `json:"summary"`
	Charts  []Chart  `json:"charts,omitempty"`
	Tables  []Table  `json:"tables,omitempty"`
	Notes   []string `json:"notes,omitempty"`
}

// Table is a table. Numbers are in columns whose Number is set.
type Table struct {
	ID      string   `json:"id"`
	Caption string   `json:"caption"`
	Columns []Column `json:"columns"`
	Rows    []Row    `json:"rows"`
	Others  string   `json:"others,omitempty"` // how many rows are not listed
	Folded  bool     `json:"-"`                // the page hides it until the reader opens it
	Matrix  bool     `json:"-"`                // cells link to the rows of another table
}

// Column is a column of a table.
type Column struct {
	Name   string `json:"name"`
	Number bool   `json:"number,omitempty"`
	// List and Long say how a page shows the column: as a list of names, which it may cut, or as texts that
	// need several lines.
	List, Long bool `json:"-"`
}

// Row is a row, and the records behind it.
type Row struct {
	ID      string    `json:"id,omitempty"`
	Cells   []Cell    `json:"cells"`
	Records []Records `json:"records,omitempty"`
}

// Cell is a value. Link is the ID of a row.
type Cell struct {
	Text  string `json:"text"`
	Link  string `json:"link,omitempty"`
	Code  bool   `json:"-"` // SQL
	Alarm bool   `json:"-"`
	Heat  int    `json:"-"` // 0 to 5
}

// maker holds the state of one report while it is made.
type maker struct {
	options               Options
	filter                *query.Filter
	keyFilters            []*query.Filter
	since, until          int64 // of the period; without a requested end, until becomes that of the last record
	trailFirst, trailLast int64
	bounds                []int64 // of the parts of the period
	width                 time.Duration
	warned                map[string]bool
	warnings              []string
	damaged               []string // the warnings that report damage
	stats                 trail.ScanStats
	readTwice             bool // the records were read a second time
	hidden                query.Hidden
	recorded              []*proof.Recording
	*figures
}

// warn collects and passes on a warning, unless the same one was passed on before.
func (m *maker) warn(err error) {
	text := query.OpenError(err).Error()
	if m.warned[text] {
		return
	}
	m.warned[text] = true
	m.warnings = append(m.warnings, text)
	if p := format.AsProblem(err); p != nil && p.Class.IsDamage() {
		m.damaged = append(m.damaged, text)
	}
	m.options.Warn(err)
}

// Make makes a report.
func Make(ctx context.Context, o Options) (*Report, error) {
	m := &maker{
		options: o,
		filter:  o.Criteria.Filter(),
		since:   o.Within.Since,
		until:   o.Within.Until,
		warned:  map[string]bool{},
	}
	for i := range keyFigures {
		m.keyFilters = append(m.keyFilters, keyFigures[i].filter.Filter())
	}
	m.setBounds()
	var err error
	if m.figures, m.stats, err = m.scan(ctx, nil); err != nil {
		return nil, err
	}
	if m.keepShown() {
		m.readTwice = true
		if m.figures, m.stats, err = m.scan(ctx, m.figures); err != nil {
			return nil, err
		}
	}
	m.hidden.DropEnded(ctx, o.Index)
	for _, warning := range m.hidden.Errs() {
		m.warn(warning)
	}
	for _, warning := range m.filter.RenamedOutside(ctx, o.Index, m.since, o.Within.Until) {
		m.warn(warning)
	}
	for _, warning := range query.NewNames(&o.Criteria).Search(ctx, o.Index) {
		m.warn(warning)
	}
	if err := m.markEarlierUses(ctx, m.figures); err != nil {
		return nil, err
	}
	if m.recorded, err = proof.Recorded(ctx, o.Index, m.since, m.until); err != nil {
		return nil, err
	}
	if m.until == format.MaxTime && m.total.n > 0 {
		m.until = m.when.last + 1 // records that a server adds while this runs are not in the report
	}
	return m.report()
}

// setBounds divides into buckets the part of the period for which the trail has records.
func (m *maker) setBounds() {
	first, last := int64(format.MaxTime), int64(format.MinTime)
	for i := range m.options.Index.Streams {
		for k := range m.options.Index.Streams[i].Segments {
			if s := &m.options.Index.Streams[i].Segments[k]; s.Records > 0 {
				first, last = min(first, s.FirstTime), max(last, s.LastEnd)
			}
		}
	}
	if first > last {
		first, last = 0, 0
	}
	m.trailFirst, m.trailLast = first, last
	first, last = max(first, m.since), min(last, m.until)
	m.bounds, m.width = buckets(first, max(first, last), maxBuckets, m.options.Zone)
}

// maxBuckets is the largest number of buckets that charts show.
const maxBuckets = 60

// time formats a time as the report shows it, in seconds.
func (m *maker) time(usec int64) string {
	return query.Moment(usec).In(m.options.Zone).Format("2006-01-02 15:04:05")
}

func (m *maker) report() (*Report, error) {
	r := &Report{
		Title: "Audit report", Made: m.options.Now.In(m.options.Zone).Format("2006-01-02 15:04:05 -07:00"),
		Version: m.options.Version,
		Zone:    m.options.ZoneName, Since: "beginning of the trail", Until: "end of the trail", Notes: m.notes(),
	}
	for _, t := range m.options.Trails {
		r.Trails = append(r.Trails, render.Safe(t))
	}
	switch {
	case m.options.Within.Since != format.MinTime:
		r.Since = m.time(m.since)
	// Of a period that ends before the trail begins, the beginning of the trail would be later than the end.
	case m.trailFirst != 0 && m.trailFirst < m.options.Within.Until:
		r.Since = m.time(m.trailFirst)
	}
	switch {
	case m.options.Within.Until != format.MaxTime:
		r.Until = m.time(m.until)
	case m.trailLast != 0 && m.trailLast >= m.options.Within.Since:
		r.Until = m.time(m.trailLast)
	}
	if m.total.n > 0 {
		r.First, r.Last = m.time(m.when.first), m.time(m.when.last)
	}
	r.Filter = m.options.Filter
	r.Hosts = m.hostNames()
	r.Verdict, r.Recorded = m.verdict(), m.recorded
	r.Figures = m.keyFigureList()
	r.Sections = m.sections()
	if m.options.Standard != "" {
		var err error
		if r.Standard, err = m.standardReport(r); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// hostNames returns the names of the servers that wrote the trail in the period.
func (m *maker) hostNames() []string {
	var all names
	servers := m.options.Index.Servers()
	for i := range m.options.Index.Streams {
		for _, ref := range m.options.Index.Streams[i].Between(m.since, m.until) {
			for _, s := range servers.Of(&ref) {
				name := s.Host
				if s.Cluster != "" {
					name += " (" + s.Cluster + ")"
				}
				all.add(render.Safe(name))
			}
		}
	}
	return all.list
}

// verdict combines what verify found in the whole trail with what the pass over the records found.
func (m *maker) verdict() Verdict {
	v := m.options.Verify
	problems := func(list []verify.Problem, more int) (texts []string) {
		for _, p := range list[:min(len(list), maxListed)] {
			texts = append(texts, p.String())
		}
		if more > 0 {
			texts = append(texts, "and "+humanize.Comma(int64(more))+" more")
		}
		return texts
	}
	out := Verdict{
		Damage:   problems(v.Problems, v.MoreProblems),
		Unread:   problems(v.Unreadable, v.MoreUnreadable),
		Warnings: problems(v.Warnings, v.MoreWarnings),
	}
	all := slices.Concat(out.Damage, out.Unread, out.Warnings)
	for _, w := range m.warnings {
		w = render.Safe(w)
		listed := slices.ContainsFunc(all, func(known string) bool {
			return strings.Contains(known, w) || strings.Contains(w, known)
		})
		if !listed && len(out.Warnings) < 2*maxListed {
			out.Warnings = append(out.Warnings, w)
		}
	}
	out.Intact, out.Complete = len(v.Problems)+len(m.damaged) == 0, len(v.Unreadable) == 0
	out.Text = strings.TrimPrefix(v.Verdict(), "intact: ")
	if len(v.Problems) == 0 && len(m.damaged) > 0 {
		out.Text = "DAMAGED: found where records were read, not where they were verified; there, " + out.Text
	}
	checked := "the whole trail"
	if v.State != nil && v.State.NotRead.Segments > 0 {
		out.NotRead = &v.State.NotRead
		checked = "the period, and what is new since the last verification that is remembered"
	}
	if !v.Keyed {
		out.Facts = append(out.Facts, Fact{"Signatures", "not checked: no public key was given"})
	}
	for i := range v.Seals {
		out.Facts = append(out.Facts, Fact{"Seals", v.Seals[i].Line(v.Keyed)})
	}
	anchors := "none were given: that the end of the trail was cut off, or that it is an older copy, would not be " +
		"noticed"
	if v.Anchors > 0 {
		anchors = humanize.Comma(int64(v.Anchors)) + " checked: the trail has everything that it had when they were made"
		if !out.Intact {
			anchors = humanize.Comma(int64(v.Anchors)) + " checked"
		}
	}
	out.Facts = append(out.Facts, Fact{"Anchors", anchors},
		Fact{"Checked", fmt.Sprintf("%s: %s in %s of %s, %s", checked, render.Plural(v.Records, "record"),
			render.Plural(v.Blocks, "block"), render.Plural(v.Segments, "segment"), render.Plural(v.Streams, "stream"))})
	if v.State != nil {
		out.Facts = append(out.Facts, Fact{"State", v.State.Line()})
	}
	if n := out.NotRead; n != nil {
		out.Facts = append(out.Facts, Fact{"Not read",
			fmt.Sprintf("%s in %s, which earlier verifications have read, between %s and %s",
				render.Plural(n.Blocks, "block"), render.Plural(n.Segments, "segment"), v.State.Since, v.State.Until)})
		out.Facts = append(out.Facts, Fact{"Rests on them",
			"which settings were in effect when the period began, and which uses were the first ones"})
	}
	if v.First != "" {
		out.Facts = append(out.Facts, Fact{"Covers", v.First + " to " + v.Last})
	}
	if v.GapRecords > 0 {
		out.Facts = append(out.Facts, Fact{"Lost",
			fmt.Sprintf("%s, counted by %s", render.Plural(v.LostRecords, "record"),
				render.Plural(v.GapRecords, "gap record"))})
	}
	for i := range v.Deleted {
		out.Facts = append(out.Facts, Fact{"Deleted", fmt.Sprint(&v.Deleted[i])})
	}
	if v.UnreadBlocks > 0 {
		out.Facts = append(out.Facts, Fact{"Encrypted", render.Plural(v.UnreadBlocks, "block") +
			" could not be decrypted: their records are missing here"})
	}
	return out
}

// RecordedLines returns the rows of the second verdict, on whether everything was recorded.
func (r *Report) RecordedLines() (lines []Fact) {
	for _, recording := range r.Recorded {
		for _, line := range recording.Lines(len(r.Recorded) > 1) {
			lines = append(lines, Fact{line[0], render.Safe(line[1])})
		}
	}
	return lines
}

// Everything says that nothing is known to have been left out in the period.
func (r *Report) Everything() bool {
	return !slices.ContainsFunc(r.Recorded, func(recording *proof.Recording) bool { return !recording.Everything })
}

// notes say how the figures were computed.
func (m *maker) notes() []string {
	notes := []string{
		"Counts are exact: each is the number of records that the command behind it shows. Tables list the " +
			"largest rows; what is not listed is counted in their last line.",
		"Records of the trail belong to the period by the time at which they started.",
	}
	if m.readTwice {
		notes = append(notes,
			"There were more different names than are followed at the same time: rows were chosen by an "+
				"approximation, then counted exactly. A row with a few records may be missing where its table says "+
				"that there are more.")
	}
	if n := m.unfinished.n; n > 0 {
		notes = append(notes,
			fmt.Sprintf("Of statements that had not ended when they were recorded there are start records, %s "+
				"here: they count as records, not as statements.", humanize.Comma(n)))
	}
	return notes
}
