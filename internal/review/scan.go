// Package review answers the questions of people who review access: which privileges were granted and
// never used, what somebody did, where a value was asked for, who changed a row.
//
//	grants.go   the grants of a server, as JSON; acl.go: lists of privileges
//	dump.go     a dump as it is restored; restore.go: into a throw-away server, whose grants are read
//	grant.go    GRANT and REVOKE; apply.go: scripts of them; words.go, reading.go: words of SQL
//	policy.go   what PostgreSQL would allow with them
//	scan.go     a pass over a trail, by all cores
//	uses.go     what roles did, summed up by the shape of statements; hidden.go: what records do not name
//	renamed.go  what has another name now than in the records
//	access.go   what of the grants was used; memberships.go: and of memberships; script.go: REVOKE for the rest;
//	            dryrun.go: what would fail
//	person.go   all that somebody did
//	subject.go  where a value was asked for; value.go: its forms
//	change.go   who changed a row; pgoutput.go: the changes of a file
//	document.go the answer as text, JSON and Markdown; follow.go: the commands in it
//
// No library serves for reading SQL and pgoutput: those that parse PostgreSQL's SQL link its parser, in C
// or as WebAssembly, and know nothing of psql's commands; those that parse pgoutput belong to
// clients of replication, and are given messages whose length is known.
package review

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/pg-steno/pg_steno/internal/format"
	"github.com/pg-steno/pg_steno/internal/proof"
	"github.com/pg-steno/pg_steno/internal/query"
	"github.com/pg-steno/pg_steno/internal/trail"
)

// Source is the part of a trail that a review is about.
type Source struct {
	Index        *trail.Index
	Trails       []string // as whoever asks names them
	Since, Until int64
	// Command returns a command that shows the records of criteria.
	Command func(*query.Criteria, query.Range) string
	// System is the system identifier of the server that the review is about; 0: of all.
	System uint64
	// Warn is told what is wrong in the trail. It is called by one goroutine at a time.
	Warn func(error)
	// Progress is told how many blocks are read, and how many there are; it may be nil.
	Progress func(done int64)
}

// visitor takes the records of one goroutine.
type visitor interface {
	Block(*trail.BlockRef)
	Record(*format.Record)
}

// scan reads records by as many goroutines as there are visitors, at most trail.Workers, each with one of its own.
func (s *Source) scan(ctx context.Context, o trail.ScanOptions, visitors []visitor) (trail.ScanStats, error) {
	o.Warn = s.Warn
	o.Blocks = s.blocks()
	stats := s.Index.Read(ctx, o, func(worker int, r *trail.ScanReader) {
		if worker >= len(visitors) {
			return
		}
		v, ref := visitors[worker], (*trail.BlockRef)(nil)
		for r.Next() {
			if r.Ref != ref {
				ref = r.Ref
				v.Block(ref)
				if s.Progress != nil {
					s.Progress(ref.Length())
				}
			}
			v.Record(&r.Record)
		}
	})
	return stats, ctx.Err()
}

// blocks selects those of the server that the answer is about; nil: all.
func (s *Source) blocks() func(*trail.BlockRef) bool {
	if s.System == 0 {
		return nil
	}
	return func(ref *trail.BlockRef) bool { return ref.Segment.Header.SystemID == s.System }
}

// begin is the time of the first record of the trail, and end that of the end of the last one.
func (s *Source) bounds() (begin, end int64, records uint64) {
	begin, end = format.MaxTime, format.MinTime
	for i := range s.Index.Streams {
		for k := range s.Index.Streams[i].Segments {
			if one := &s.Index.Streams[i].Segments[k]; one.Records > 0 && (s.System == 0 || one.Segment.Header.SystemID == s.System) {
				begin, end, records = min(begin, one.FirstTime), max(end, one.LastEnd), records+one.Records
			}
		}
	}
	return begin, end, records
}

// Servers are the system identifiers of the servers that have written the trails.
func (s *Source) Servers() (all []uint64) {
	for i := range s.Index.Streams {
		for k := range s.Index.Streams[i].Segments {
			one := &s.Index.Streams[i].Segments[k]
			if id := one.Segment.Header.SystemID; one.Records > 0 && !slices.Contains(all, id) {
				all = append(all, id)
			}
		}
	}
	return all
}

// OneServer refuses trails of several servers, if what they are compared with is of one, and does not say of which.
func (s *Source) OneServer(what string) error {
	var of []string
	for _, id := range s.Servers() {
		of = append(of, strconv.FormatUint(id, 10))
	}
	if len(of) > 1 {
		return fmt.Errorf("the trails are of several servers (%s), and %s: name the trails of one", strings.Join(of, ", "), what)
	}
	return nil
}

// EachServer makes an answer for each of the servers that have written the trails.
func (s *Source) EachServer(review func(Source) (*Document, error)) (all Documents, err error) {
	servers := s.Servers()
	if len(servers) <= 1 {
		doc, err := review(*s)
		return Documents{doc}, err
	}
	for _, id := range servers {
		one := *s
		one.System = id
		doc, err := review(one)
		if err != nil {
			return nil, err
		}
		doc.Facts = slices.Insert(doc.Facts, 0, Fact{"server", strconv.FormatUint(id, 10)})
		all = append(all, doc)
	}
	return all, nil
}

// limits collects what the trail may lack, and hands everything on to another visitor.
type limits struct {
	visitor
	*proof.Exclusions
	ref *trail.BlockRef
}

func (l *limits) Block(ref *trail.BlockRef) {
	l.ref = ref
	l.visitor.Block(ref)
}

func (l *limits) Record(r *format.Record) {
	if proof.Tells(r) {
		l.Exclusions.Record(r, l.ref)
	}
	l.visitor.Record(r)
}

// nothing is a visitor that ignores records.
type nothing struct{}

func (nothing) Block(*trail.BlockRef) {}
func (nothing) Record(*format.Record) {}

// lacks is what the records of a range may lack.
type lacks struct {
	exclusions []string
	lacking    bool   // it is more than times in which the server did not run
	failures   string // why refused logins and failures may have no record; empty: nothing is known that hides them
}

// read makes a pass over the range, and finds what it may lack. Blocks without wanted records are left
// out, except those that tell what may be lacking.
func (s *Source) read(ctx context.Context, o trail.ScanOptions, needs proof.Needs, visitors []visitor) (lack lacks, err error) {
	begin, _, _ := s.bounds()
	from := max(s.Since, begin)
	e := proof.NewExclusions(s.Index, from, s.Until, needs)
	all := make([]visitor, len(visitors))
	for i, v := range visitors {
		all[i] = &limits{visitor: v, Exclusions: e}
	}
	if contents := o.Contents; contents != nil {
		o.Contents = func(c *format.Contents) format.Groups {
			g := contents(c)
			g.Or(proof.TellingGroups(c))
			return g
		}
	}
	if o.Since > format.MinTime { // what was set before
		before := trail.ScanOptions{Since: format.MinTime, Until: o.Since, Contents: proof.TellingGroups}
		if _, err := s.scan(ctx, before, []visitor{&limits{visitor: nothing{}, Exclusions: e}}); err != nil {
			return lack, err
		}
	}
	if _, err := s.scan(ctx, o, all); err != nil {
		return lack, err
	}
	e.FindEnds(ctx, s.Index, s.blocks(), s.Warn)
	if err := ctx.Err(); err != nil {
		return lack, err
	}
	lack.exclusions, lack.lacking = e.List(s.Since <= begin)
	lack.failures = e.HidesFailures()
	return lack, nil
}

// once is a Warn that collects what is wrong, each thing once.
type once struct {
	mu   sync.Mutex
	seen map[string]bool
	list []string
	bad  bool // something is damaged, or could not be read
}

func (o *once) warn(err error) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.seen == nil {
		o.seen = map[string]bool{}
	}
	text := err.Error()
	if o.seen[text] {
		return false
	}
	o.seen[text] = true
	level, damaged, unread := query.Severity(err)
	o.bad = o.bad || damaged || unread
	const most = 50
	if len(o.list) < most {
		o.list = append(o.list, "a part of the trail is "+level+": "+text)
	} else if len(o.list) == most {
		o.list = append(o.list, fmt.Sprintf("and more: run %q", "steno verify"))
	}
	return true
}
