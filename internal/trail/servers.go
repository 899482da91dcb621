// Which server wrote a trail, according to the records of its starts.

package trail

import (
	"cmp"
	"math"
	"slices"
	"sync"

	"github.com/pg-steno/pg_steno/internal/format"
)

// Server is the server that recorded from a time on, until the next one in the trail.
type Server struct {
	Since   int64
	Host    string
	Cluster string // cluster_name
}

// Servers has the servers of one or more trails. Several goroutines may use it. If a clock was set back, so
// that a server seems to have started before its predecessor, the time in between is attributed to the one that
// comes later in the trail. So the answer does not depend on which parts were searched before.
type Servers struct {
	mu     sync.RWMutex
	of     map[string][]Server // by the directory of the trail, in order of time
	search []*startSearch
}

// startSearch looks for starts of the server in a stream, backwards from its end, as far as needed.
type startSearch struct {
	stream *StreamIndex
	next   int   // the next segment to search; -1: none
	left   int   // the segment before the one where a header led to next; -1: none did
	since  int64 // the earliest start found so far
}

// Servers returns a value that finds the records of server starts when needed. They are in stream 0, and in
// streams that begin because their trail was copied. Segment headers point to the segment with the previous
// start. If they do not, and an index does not say which blocks have such records, the kinds of records in each
// block are searched. Starts in deleted segments are not known.
func (x *Index) Servers() *Servers {
	s := &Servers{}
	for i := range x.Streams {
		stream := &x.Streams[i]
		if stream.Stream.Number == 0 {
			s.search = append(s.search, &startSearch{stream, len(stream.Segments) - 1, -1, math.MaxInt64})
		} else if len(stream.Segments) > 0 { // other writers record no start
			starts := s.readStarts(&stream.Segments[0], 1)
			for _, start := range starts {
				s.add(stream.Stream.trail(), start)
			}
		}
	}
	return s
}

// server selects blocks that may have records of kind server.
var server = MergeOptions{Contents: func(c *format.Contents) format.Groups {
	return c.SelectResult(func(k format.Kind, _ format.Outcome) bool { return k == format.KindServer })
}}

// readStarts returns the starts recorded in the first blocks of a segment, up to a number of blocks, in order.
func (s *Servers) readStarts(segment *SegmentIndex, most int) (starts []Server) {
	if segment.Records == 0 || segment.Segment.KeyErr != nil {
		return nil
	}
	files := &Files{}
	defer files.Close()
	var b format.Block
	refs, _ := segment.refs()
	refs = refs[:min(most, len(refs))]
	for _, ref := range server.skip(files, refs) {
		if ref.Records > 0 && files.Read(&ref, &b) == nil {
			starts = append(starts, startsIn(&b)...)
		}
	}
	return starts
}

// mayFind returns whether the search may find the start that was in effect at a time in a trail.
func (l *startSearch) mayFind(trail string, time int64) bool {
	return l.next >= 0 && l.since > time && l.stream.Stream.trail() == trail
}

// step searches a segment, and follows its header to the segment with the previous start. If it has none, it
// continues where it left off.
func (l *startSearch) step(s *Servers) {
	segments := l.stream.Segments
	segment := &segments[l.next]
	starts := s.readStarts(segment, math.MaxInt)
	for _, start := range slices.Backward(starts) {
		if start.Since < l.since { // otherwise a clock was set back, and a later start has these times
			s.add(l.stream.Stream.trail(), start)
			l.since = start.Since
		}
	}
	if len(starts) == 0 && l.left > l.next {
		l.next, l.left = l.left, -1
		return
	}
	l.next--
	l.left = -1
	if last := segment.Segment.Header.LastStart; segment.Segment.Err == nil && last > 0 &&
		last < segment.Segment.Number {
		i, ok := slices.BinarySearchFunc(segments[:l.next+1], last, func(segment SegmentIndex, n uint64) int {
			return cmp.Compare(segment.Segment.Number, n)
		})
		if ok {
			l.next, l.left = i, l.next
		}
	}
}

// startsIn returns the starts in a block. Its records are only decoded if one is of kind server.
func startsIn(b *format.Block) (all []Server) {
	if !b.HasKind(format.KindServer) {
		return nil
	}
	var r format.Record
	for b.Next(&r) == nil {
		if start, ok := startOfServer(&r); ok {
			all = append(all, start)
		}
	}
	return all
}

// Note learns from a new record, if it is the start of a server.
func (s *Servers) Note(ref *BlockRef, r *format.Record) {
	start, ok := startOfServer(r)
	if !ok || s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	trail := ref.Segment.Stream.trail()
	if known := s.of[trail]; len(known) > 0 {
		s.of[trail] = slices.DeleteFunc(slices.Clone(known), func(known Server) bool {
			return known.Since >= start.Since
		})
	}
	for _, search := range s.search {
		if search.stream.Stream.trail() == trail {
			search.since = min(search.since, start.Since)
		}
	}
	s.add(trail, start)
}

// startOfServer reads the record of a server's start; ok is false for other records.
func startOfServer(r *format.Record) (server Server, ok bool) {
	if r.Kind != format.KindServer {
		return server, false
	}
	event, _ := r.ExtraValue("event")
	host, ok := r.ExtraValue("host")
	if !ok || string(event) != "start" && string(event) != "branch" {
		return server, false
	}
	cluster, _ := r.ExtraValue("cluster_name")
	return Server{Since: r.Time, Host: string(host), Cluster: string(cluster)}, true
}

// Add adds a server of the trail in a directory.
func (s *Servers) Add(trail string, server Server) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.add(trail, server)
}

func (s *Servers) add(trail string, server Server) {
	if s.of == nil {
		s.of = map[string][]Server{}
	}
	known := s.of[trail]
	i, _ := slices.BinarySearchFunc(known, server, func(a, b Server) int { return cmp.Compare(a.Since, b.Since) })
	if i < len(known) && known[i] == server {
		return
	}
	s.of[trail] = slices.Insert(slices.Clone(known), i, server)
}

// trail returns the directory of the stream's trail, as far as it is known.
func (s *Stream) trail() string {
	if s.Trail != "" {
		return s.Trail
	}
	return s.Path
}

// find searches for the start that was in effect at a time in a trail, and returns all known starts of the
// trail.
func (s *Servers) find(trail string, time int64) []Server {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, search := range s.search {
		for search.mayFind(trail, time) {
			search.step(s)
		}
	}
	return s.of[trail]
}

// Of returns the servers that recorded a block, in order of time. The time of the first one is meaningless; if
// it is not known, its names are empty.
func (s *Servers) Of(ref *BlockRef) []Server {
	if s == nil {
		return []Server{{Since: math.MinInt64}}
	}
	trail := ref.Segment.Stream.trail()
	s.mu.RLock()
	known := s.of[trail]
	incomplete := slices.ContainsFunc(s.search, func(l *startSearch) bool { return l.mayFind(trail, ref.FirstTime) })
	s.mu.RUnlock()
	if incomplete {
		known = s.find(trail, ref.FirstTime)
	}
	all := []Server{{Since: math.MinInt64}}
	for _, server := range known {
		switch {
		case server.Since <= ref.FirstTime:
			all[0] = server
		case server.Since <= ref.LastEnd:
			all = append(all, server)
		}
	}
	return all
}
