// Package info is the command that lists what a trail consists of.
package info

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"

	"github.com/pg-steno/pg_steno/internal/command/cmdutil"
	"github.com/pg-steno/pg_steno/internal/command/flags"
	"github.com/pg-steno/pg_steno/internal/exit"
	"github.com/pg-steno/pg_steno/internal/format"
	"github.com/pg-steno/pg_steno/internal/iostreams"
	"github.com/pg-steno/pg_steno/internal/progress"
	"github.com/pg-steno/pg_steno/internal/proof"
	"github.com/pg-steno/pg_steno/internal/query"
	"github.com/pg-steno/pg_steno/internal/render"
	"github.com/pg-steno/pg_steno/internal/trail"
	"github.com/pg-steno/pg_steno/internal/verify"
)

// Options are the options of info.
type Options struct {
	IO     *iostreams.IOStreams
	Trails []string
	Format string
	// TimeZone is the zone in which text shows times.
	TimeZone string
	Detail   bool
	query.KeyOptions
}

// NewCmdInfo returns the command. Tests give a run function of their own.
func NewCmdInfo(f *cmdutil.Factory, run func(context.Context, *Options) error) *cobra.Command {
	opts := &Options{IO: f.IO}
	cmd := &cobra.Command{
		Use:   "info [TRAIL|SEGMENT]...",
		Short: "Show the streams and segments of a trail",
		Long: `Show the streams and segments of a trail, with sizes, times and compression, and
the ID of the key with which a segment is encrypted, and whether everything was
recorded, as "steno verify" says it. Besides the headers, only records that tell
of the latter are read, as far as the indexes of segments show where they are.
--detail reads all records, for which it needs the keys of encrypted segments,
and counts them by kind, class, user and database.

The exit code is 1 if a header is damaged, and 3 if a file cannot be read. Only
"steno verify" reads and checks everything.`,
		Example: `  steno info
  steno info --detail /var/lib/postgresql/15/main/pg_steno
  steno info --format json pg_steno/0/0000000001.steno`,
		RunE: func(cmd *cobra.Command, args []string) error {
			opts.Trails = args
			if run != nil {
				return run(cmd.Context(), opts)
			}
			return infoRun(cmd.Context(), opts)
		},
	}
	flags.AddKeys(cmd, &opts.KeyOptions)
	cmdutil.AddFormat(cmd, &opts.Format)
	flags.AddZone(cmd, &opts.TimeZone)
	cmd.Flags().BoolVar(&opts.Detail, "detail", false, "read all records and count them by kind, class, user and "+
		"database")
	return cmdutil.ReadsOnly(cmd)
}

// Segment is what the headers of a segment state.
type Segment struct {
	File          string `json:"file"`
	Stream        uint32 `json:"stream"`
	Segment       uint64 `json:"segment"`
	SystemID      string `json:"system_identifier,omitempty"`
	ServerVersion string `json:"server_version,omitempty"`
	Created       string `json:"created,omitempty"`
	FirstBlock    uint64 `json:"first_block,omitempty"`
	FirstRecord   uint64 `json:"first_record,omitempty"`
	KeyID         string `json:"encryption_key,omitempty"`
	Totals
	Errors []string `json:"errors,omitempty"`
}

// Totals are sums over blocks.
type Totals struct {
	Blocks         int64   `json:"blocks"`
	Records        int64   `json:"records"`
	Bytes          int64   `json:"bytes"`
	PayloadBytes   int64   `json:"payload_bytes"`
	StoredBytes    int64   `json:"stored_payload_bytes"`
	Ratio          float64 `json:"compression_ratio,omitempty"`
	BytesPerRecord float64 `json:"bytes_per_record,omitempty"`
	First          string  `json:"first_time,omitempty"`
	Last           string  `json:"last_time,omitempty"`

	first, last int64
}

// Info is the whole answer.
type Info struct {
	Trail    []string         `json:"trail"`
	Streams  int              `json:"streams"`
	Totals   Totals           `json:"total"`
	Segments []Segment        `json:"segments"`
	Deleted  []verify.Deleted `json:"deleted,omitempty"`
	// Recorded says, for each server, whether everything was recorded.
	Recorded []*proof.Recording `json:"recorded,omitempty"`
	Detail   *Detail            `json:"detail,omitempty"`
}

// Detail counts records.
type Detail struct {
	Kinds     map[string]int64 `json:"kinds"`
	Classes   map[string]int64 `json:"classes"`
	Users     map[string]int64 `json:"users"`
	Databases map[string]int64 `json:"databases"`
	Codecs    map[string]int64 `json:"codecs"`
}

func newDetail() *Detail {
	return &Detail{map[string]int64{}, map[string]int64{}, map[string]int64{}, map[string]int64{}, map[string]int64{}}
}

func (d *Detail) add(o *Detail) {
	for i, m := range d.maps() {
		for k, n := range o.maps()[i] {
			m[k] += n
		}
	}
}

func (d *Detail) maps() []map[string]int64 {
	return []map[string]int64{d.Kinds, d.Classes, d.Users, d.Databases, d.Codecs}
}

func (t *Totals) add(o *Totals) {
	if o.Records > 0 {
		if t.Records == 0 {
			t.first, t.last = o.first, o.last
		}
		t.first, t.last = min(t.first, o.first), max(t.last, o.last)
	}
	t.Blocks += o.Blocks
	t.Records += o.Records
	t.Bytes += o.Bytes
	t.PayloadBytes += o.PayloadBytes
	t.StoredBytes += o.StoredBytes
}

// finish computes the ratios from the sums.
func (t *Totals) finish() {
	if t.StoredBytes > 0 {
		t.Ratio = float64(t.PayloadBytes) / float64(t.StoredBytes)
	}
	if t.Records > 0 {
		t.BytesPerRecord = float64(t.Bytes) / float64(t.Records)
		t.First, t.Last = render.Time(t.first), render.Time(t.last)
	}
}

func infoRun(ctx context.Context, opts *Options) error {
	if err := iostreams.CheckFormat(opts.Format); err != nil {
		return err
	}
	zone, err := flags.Zone(opts.TimeZone, opts.Format)
	if err != nil {
		return err
	}
	t, err := opts.OpenEncrypted(opts.Trails)
	if err != nil {
		return err
	}
	info := &Info{Trail: opts.Trails, Streams: len(t.Streams), Segments: []Segment{}}
	if len(info.Trail) == 0 {
		info.Trail = []string{t.Path}
	}
	damaged, unread := false, len(t.Errors) > 0
	warner := &cmdutil.Warner{IO: opts.IO}
	var detail *counter
	if opts.Detail {
		detail = newCounter(progress.New(opts.IO, t.Size()))
	}
	for _, s := range t.Streams {
		for _, seg := range s.Segments {
			one, refs, bad, unreadable := segment(seg)
			if detail != nil && seg.KeyErr == nil {
				detail.add(ctx, refs)
			}
			damaged, unread = damaged || bad, unread || unreadable
			info.Totals.add(&one.Totals)
			one.finish()
			info.Segments = append(info.Segments, one)
		}
	}
	info.Totals.finish()
	info.Deleted = deleted(t)
	if info.Recorded, err = proof.Recorded(ctx, t.Index(), format.MinTime, format.MaxTime); err != nil {
		return err
	}
	if detail != nil {
		total, errs := detail.finish()
		for _, err := range t.Index().MissingKeys(format.MinTime, format.MaxTime) {
			warner.Warn(err)
		}
		for _, err := range errs {
			warner.Warn(err)
		}
		info.Detail = total
	}
	for _, err := range t.Errors {
		fmt.Fprintf(opts.IO.ErrOut, "steno: %s\n", render.Safe(err.Error()))
	}
	if opts.Format == "json" {
		e := json.NewEncoder(render.SafeJSON(opts.IO.Out))
		e.SetEscapeHTML(false)
		err = e.Encode(info)
	} else {
		err = info.writeText(opts.IO.Out, zone)
	}
	if err == nil && ctx.Err() != nil {
		return ctx.Err()
	}
	return exit.Verdict(exit.CheckResult(damaged || warner.Damaged(), unread || warner.Unread()), err)
}

// deleted returns what retention deleted from the shown streams.
func deleted(t *trail.Trail) (all []verify.Deleted) {
	of := map[string][]trail.Deletion{}
	for _, s := range t.Streams {
		home := filepath.Dir(s.Path)
		if _, known := of[home]; !known {
			of[home] = s.Deletions()
		}
		for i := range of[home] {
			if d := &of[home][i]; d.Stream == s.Number {
				all = append(all, verify.DeletedOf(d))
			}
		}
	}
	return all
}

func segment(seg *trail.Segment) (out Segment, refs []trail.BlockRef, damaged, unread bool) {
	h := &seg.Header
	out = Segment{File: seg.Path, Stream: seg.Stream.Number, Segment: seg.Number, Totals: Totals{Bytes: seg.Size}}
	if seg.Err == nil {
		out.SystemID, out.ServerVersion = fmt.Sprint(h.SystemID), version(h.ServerVersion)
		out.Created, out.FirstBlock, out.FirstRecord = render.Time(h.Created), h.FirstBlock, h.FirstRecord
		if h.Encrypted {
			out.KeyID = h.KeyID.String()
		}
	}
	refs, errs := seg.Index()
	for _, err := range errs {
		level, isDamage, isUnread := query.Severity(err)
		if level == "deleted" {
			continue
		}
		out.Errors = append(out.Errors, err.Error())
		damaged, unread = damaged || isDamage, unread || isUnread
	}
	for i := range refs {
		r := &refs[i]
		if r.Duplicate {
			continue // it is counted in another trail
		}
		out.Totals.add(&Totals{
			Blocks: 1, Records: int64(r.Records), PayloadBytes: int64(r.Raw), StoredBytes: int64(r.Stored),
			first: r.FirstTime, last: r.LastEnd,
		})
	}
	return out, refs, damaged, unread
}

// version formats PG_VERSION_NUM: 150008 is 15.8.
func version(num uint32) string {
	if num < 100000 {
		return fmt.Sprintf("%d.%d.%d", num/10000, num/100%100, num%100)
	}
	return fmt.Sprintf("%d.%d", num/10000, num%10000)
}

// counter reads blocks and counts their records, with several goroutines.
type counter struct {
	jobs  chan trail.BlockRef
	wait  sync.WaitGroup
	files trail.Files
	bar   *progress.Bar

	mu    sync.Mutex
	total *Detail
	errs  []error
}

func newCounter(bar *progress.Bar) *counter {
	c := &counter{jobs: make(chan trail.BlockRef), bar: bar, total: newDetail()}
	for range runtime.GOMAXPROCS(0) {
		c.wait.Go(c.work)
	}
	return c
}

func (c *counter) work() {
	mine := newDetail()
	var b format.Block
	for ref := range c.jobs {
		if err := countBlock(&c.files, &ref, &b, mine); err != nil {
			c.mu.Lock()
			c.errs = append(c.errs, err)
			c.mu.Unlock()
		}
		c.bar.Add(ref.Length())
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.total.add(mine)
}

// add counts the records of blocks.
func (c *counter) add(ctx context.Context, refs []trail.BlockRef) {
	for i := range refs {
		if ctx.Err() != nil {
			return
		}
		if refs[i].Duplicate {
			continue
		}
		c.jobs <- refs[i]
	}
}

// finish waits until all added blocks have been counted.
func (c *counter) finish() (*Detail, []error) {
	close(c.jobs)
	c.wait.Wait()
	c.files.Close()
	c.bar.Done()
	return c.total, c.errs
}

func countBlock(files *trail.Files, ref *trail.BlockRef, b *format.Block, d *Detail) error {
	if err := files.Read(ref, b); err != nil {
		if p := format.AsProblem(err); p != nil && p.Class == format.ProblemDeleted {
			return nil
		}
		return err
	}
	d.Codecs[b.Header.Codec.String()]++
	var sessions, shapes []int64
	var kinds [256]int64
	var r format.Record
	grow := func(list []int64, i int) []int64 {
		for len(list) <= i {
			list = append(list, 0)
		}
		list[i]++
		return list
	}
	var err error
	for {
		if err = b.Next(&r); err != nil {
			break
		}
		if r.Kind == format.KindData {
			continue
		}
		kinds[r.Kind]++
		sessions = grow(sessions, r.SessionIndex)
		if r.Shape != nil {
			shapes = grow(shapes, r.ShapeIndex)
		}
	}
	for k, n := range kinds {
		if n > 0 {
			d.Kinds[format.Kind(k).String()] += n
		}
	}
	for i, n := range sessions {
		if n > 0 {
			s := b.SessionAt(i)
			d.Users[string(s.Fact(format.KeyUser))] += n
			d.Databases[string(s.Fact(format.KeyDatabase))] += n
		}
	}
	for i, n := range shapes {
		if n > 0 {
			d.Classes[b.ShapeAt(i).Class.String()] += n
		}
	}
	if err == io.EOF {
		return nil
	}
	return err
}

func (i *Info) writeText(out io.Writer, zone render.Zone) error {
	var b strings.Builder
	t := &i.Totals
	fmt.Fprintf(&b, "trail     %s\n", render.Safe(strings.Join(i.Trail, " ")))
	fmt.Fprintf(&b, "streams   %d, segments %d, blocks %s\n", i.Streams, len(i.Segments), humanize.Comma(t.Blocks))
	fmt.Fprintf(&b, "records   %s, %.1f bytes each\n", humanize.Comma(t.Records), t.BytesPerRecord)
	fmt.Fprintf(&b, "bytes     %s (%s), payload compressed %.2f : 1\n", humanize.Comma(t.Bytes),
		humanize.Bytes(uint64(t.Bytes)), t.Ratio)
	if t.First != "" {
		fmt.Fprintf(&b, "time      %s to %s\n", zone.Times(t.First), zone.Times(t.Last))
	}
	for k := range i.Deleted {
		fmt.Fprintf(&b, "deleted   %s, %s\n", zone.Times(i.Deleted[k].String()), humanize.Bytes(i.Deleted[k].Bytes))
	}
	for _, one := range i.Recorded {
		for _, line := range one.Lines(len(i.Recorded) > 1) {
			fmt.Fprintf(&b, "%-9s %s\n", line[0], zone.Times(render.Safe(line[1])))
		}
	}
	encrypted := slices.ContainsFunc(i.Segments, func(s Segment) bool { return s.KeyID != "" })
	fmt.Fprintf(&b, "\n  stream    segment   blocks      records     bytes  ratio  %-*s  server", zone.Width(),
		"first time")
	if encrypted {
		b.WriteString("   encrypted with")
	}
	b.WriteString("\n")
	for _, s := range i.Segments {
		first := zone.Times(cmp.Or(s.First, "-"))
		server := s.ServerVersion
		if server == "" {
			server = "-"
		}
		if encrypted {
			key := s.KeyID
			if key == "" {
				key = "-"
			}
			server = fmt.Sprintf("%-7s  %s", server, key)
		}
		fmt.Fprintf(&b, "%8d %10d %8s %12s %9s %6.2f  %-*s  %s\n", s.Stream, s.Segment, humanize.Comma(s.Blocks),
			humanize.Comma(s.Records), humanize.Bytes(uint64(s.Bytes)), s.Ratio, zone.Width(), first, server)
		for _, e := range s.Errors {
			fmt.Fprintf(&b, "         ! %s\n", render.Safe(e))
		}
	}
	if i.Detail != nil {
		for n, title := range []string{"kind", "class", "user", "database", "codec (blocks)"} {
			writeCounts(&b, title, i.Detail.maps()[n])
		}
	}
	_, err := io.WriteString(out, b.String())
	return err
}

// writeCounts lists counts, the greatest first.
func writeCounts(b *strings.Builder, title string, counts map[string]int64) {
	if len(counts) == 0 {
		return
	}
	fmt.Fprintf(b, "\nby %s\n", title)
	names := slices.SortedFunc(maps.Keys(counts), func(x, y string) int {
		return cmp.Or(cmp.Compare(counts[y], counts[x]), cmp.Compare(x, y))
	})
	for _, name := range names {
		shown := "(none)"
		if name != "" {
			shown = render.Name(name)
		}
		fmt.Fprintf(b, "%14s  %s\n", humanize.Comma(counts[name]), shown)
	}
}
