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

// Source is the part of the trails that a review is about.
type Source struct {
	Index        *trail.Index
	Trails       []string // as they were given on the command line
	Since, Until int64
	// Command returns the command that shows the records of a range that match criteria.
	Command func(*query.Criteria, query.Range) string
	// System is the system identifier of the server that the review is about; 0: all servers.
	System uint64
	// Warn is called with each problem of the trail, by one goroutine at a time.
	Warn func(error)
	// Progress is called with the progress of the reading; it may be nil.
	Progress func(done int64)
}

// visitor receives the blocks and records that one goroutine reads.
type visitor interface {
	Block(*trail.BlockRef)
	Record(*format.Record)
}

// scan reads records with one goroutine for each visitor, at most trail.Workers.
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

// blocks returns a filter for the blocks of the server that the answer is about; nil: all blocks.
func (s *Source) blocks() func(*trail.BlockRef) bool {
	if s.System == 0 {
		return nil
	}
	return func(ref *trail.BlockRef) bool { return ref.Segment.Header.SystemID == s.System }
}

// bounds returns the time of the first record of the trail, the end of the last one, and the number of records.
func (s *Source) bounds() (begin, end int64, records uint64) {
	begin, end = format.MaxTime, format.MinTime
	for i := range s.Index.Streams {
		for k := range s.Index.Streams[i].Segments {
			if segment := &s.Index.Streams[i].Segments[k]; segment.Records > 0 &&
				(s.System == 0 || segment.Segment.Header.SystemID == s.System) {
				begin, end, records = min(begin, segment.FirstTime), max(end, segment.LastEnd), records+segment.Records
			}
		}
	}
	return begin, end, records
}

// Servers returns the system identifiers of the servers that wrote the trails.
func (s *Source) Servers() (all []uint64) {
	for i := range s.Index.Streams {
		for k := range s.Index.Streams[i].Segments {
			segment := &s.Index.Streams[i].Segments[k]
			if id := segment.Segment.Header.SystemID; segment.Records > 0 && !slices.Contains(all, id) {
				all = append(all, id)
			}
		}
	}
	return all
}

// RequireOneServer refuses trails of several servers: what they are compared with is of one server, and does not say
// which.
func (s *Source) RequireOneServer(what string) error {
	var of []string
	for _, id := range s.Servers() {
		of = append(of, strconv.FormatUint(id, 10))
	}
	if len(of) > 1 {
		return fmt.Errorf("the trails are of several servers (%s), and %s: name the trails of one",
			strings.Join(of, ", "), what)
	}
	return nil
}

// ForEachServer makes one answer for each server that wrote the trails.
func (s *Source) ForEachServer(review func(Source) (*Document, error)) (all Documents, err error) {
	servers := s.Servers()
	if len(servers) <= 1 {
		doc, err := review(*s)
		return Documents{doc}, err
	}
	for _, id := range servers {
		source := *s
		source.System = id
		doc, err := review(source)
		if err != nil {
			return nil, err
		}
		doc.Facts = slices.Insert(doc.Facts, 0, Fact{"server", strconv.FormatUint(id, 10)})
		all = append(all, doc)
	}
	return all, nil
}

// limitFinder collects what the trail may lack, and passes all blocks and records on to another visitor.
type limitFinder struct {
	visitor
	*proof.Exclusions
	ref *trail.BlockRef
}

func (l *limitFinder) Block(ref *trail.BlockRef) {
	l.ref = ref
	l.visitor.Block(ref)
}

func (l *limitFinder) Record(r *format.Record) {
	if proof.ShowsLack(r) {
		l.Exclusions.Record(r, l.ref)
	}
	l.visitor.Record(r)
}

// ignoringVisitor is a visitor that ignores records.
type ignoringVisitor struct{}

func (ignoringVisitor) Block(*trail.BlockRef) {}
func (ignoringVisitor) Record(*format.Record) {}

// omissions are the facts that the records of a range may lack.
type omissions struct {
	exclusions     []string
	recordsMissing bool // there are others than times in which the server did not run
	// why refused logins and failures may have no record; empty: they have one
	failures string
}

// read makes a pass over the range, and finds what it may lack. It skips blocks without wanted records, unless they
// may show that something is lacking.
func (s *Source) read(ctx context.Context, o trail.ScanOptions, needs proof.Needs, visitors []visitor) (lack omissions,
	err error) {
	begin, _, _ := s.bounds()
	from := max(s.Since, begin)
	e := proof.NewExclusions(s.Index, from, s.Until, needs)
	all := make([]visitor, len(visitors))
	for i, v := range visitors {
		all[i] = &limitFinder{visitor: v, Exclusions: e}
	}
	if contents := o.Contents; contents != nil {
		o.Contents = func(c *format.Contents) format.Groups {
			g := contents(c)
			g.Or(proof.LackGroups(c))
			return g
		}
	}
	if o.Since > format.MinTime { // settings made before the range
		before := trail.ScanOptions{Since: format.MinTime, Until: o.Since, Contents: proof.LackGroups}
		if _, err := s.scan(ctx, before,
			[]visitor{&limitFinder{visitor: ignoringVisitor{}, Exclusions: e}}); err != nil {
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
	lack.exclusions, lack.recordsMissing = e.List(s.Since <= begin)
	lack.failures = e.HidesFailures()
	return lack, nil
}

// warningCollector collects the problems of a trail, each once.
type warningCollector struct {
	mu         sync.Mutex
	seen       map[string]bool
	list       []string
	incomplete bool // something is damaged, or could not be read
}

func (o *warningCollector) warn(err error) bool {
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
	o.incomplete = o.incomplete || damaged || unread
	const most = 50
	if len(o.list) < most {
		o.list = append(o.list, "a part of the trail is "+level+": "+text)
	} else if len(o.list) == most {
		o.list = append(o.list, fmt.Sprintf("and more: run %q", "steno verify"))
	}
	return true
}
