// Which server wrote a trail: what its records of starts say.

package trail

import (
	"cmp"
	"math"
	"slices"
	"sync"

	"github.com/pg-steno/pg_steno/internal/format"
)

// Server is what a trail says of the server that recorded from a time on, until the next one.
type Server struct {
	Since   int64
	Host    string
	Cluster string // cluster_name
}

// Servers are those of one or more trails. It may be used by many goroutines. Where a clock was set back, so
// that a server starts before the one before it, its times are those of the server that the trail has later. So
// the answer does not depend on how much of the trail was asked about before.
type Servers struct {
	mu     sync.RWMutex
	of     map[string][]Server // by the directory of the trail, in the order of their times
	search []*startSearch
}

// startSearch looks for starts of the server in a stream, from its end on backwards, as far as is asked for.
type startSearch struct {
	stream *StreamIndex
	next   int   // the segment to look into next; -1: there is none
	left   int   // that before the one whose header led to next; -1: none did
	since  int64 // the earliest start that was found
}

// Servers finds the records in which servers say where they start, when they are asked for. They are in stream
// 0, and in streams that begin because their trail was copied. Headers of segments say which segment has the
// one before them; where they do not, and a segment's index does not say which blocks have such records, each
// block's kinds of records are looked at. What retention has deleted is not known.
func (x *Index) Servers() *Servers {
	s := &Servers{}
	for i := range x.Streams {
		stream := &x.Streams[i]
		if stream.Stream.Number == 0 {
			s.search = append(s.search, &startSearch{stream, len(stream.Segments) - 1, -1, math.MaxInt64})
		} else if len(stream.Segments) > 0 { // other writers record no start
			starts := s.readStarts(&stream.Segments[0], 1)
			for _, one := range starts {
				s.add(stream.Stream.trail(), one)
			}
		}
	}
	return s
}

// server selects blocks that may have records of the server.
var server = MergeOptions{Contents: func(c *format.Contents) format.Groups {
	return c.SelectResult(func(k format.Kind, _ format.Outcome) bool { return k == format.KindServer })
}}

// readStarts returns the starts that the first blocks of a segment, or all of them, have, in their order.
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

// mayFind says whether the search may find the start that was in effect at a time in a trail.
func (l *startSearch) mayFind(trail string, time int64) bool {
	return l.next >= 0 && l.since > time && l.stream.Stream.trail() == trail
}

// step looks into a segment, and follows its header to the one with the start before. If there is none, it goes
// on where it left.
func (l *startSearch) step(s *Servers) {
	segments := l.stream.Segments
	segment := &segments[l.next]
	starts := s.readStarts(segment, math.MaxInt)
	for _, start := range slices.Backward(starts) {
		if start.Since < l.since { // or the clock was set back before a later one, whose times these are now
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
	if last := segment.Segment.Header.LastStart; segment.Segment.Err == nil && last > 0 && last < segment.Segment.Number {
		i, ok := slices.BinarySearchFunc(segments[:l.next+1], last, func(segment SegmentIndex, n uint64) int {
			return cmp.Compare(segment.Segment.Number, n)
		})
		if ok {
			l.next, l.left = i, l.next
		}
	}
}

// startsIn are those that a block has. Its records are only decoded if one is of a server.
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

// Note takes what a new record says of its server, if it does.
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

// startOfServer is what a record says of its server, if it does.
func startOfServer(r *format.Record) (one Server, ok bool) {
	if r.Kind != format.KindServer {
		return one, false
	}
	event, _ := r.ExtraValue("event")
	host, ok := r.ExtraValue("host")
	if !ok || string(event) != "start" && string(event) != "branch" {
		return one, false
	}
	cluster, _ := r.ExtraValue("cluster_name")
	return Server{Since: r.Time, Host: string(host), Cluster: string(cluster)}, true
}

// Add adds a server of the trail in a directory.
func (s *Servers) Add(trail string, one Server) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.add(trail, one)
}

func (s *Servers) add(trail string, one Server) {
	if s.of == nil {
		s.of = map[string][]Server{}
	}
	known := s.of[trail]
	i, _ := slices.BinarySearchFunc(known, one, func(a, b Server) int { return cmp.Compare(a.Since, b.Since) })
	if i < len(known) && known[i] == one {
		return
	}
	s.of[trail] = slices.Insert(slices.Clone(known), i, one)
}

// trail is the directory of the stream's trail, as far as it is known.
func (s *Stream) trail() string {
	if s.Trail != "" {
		return s.Trail
	}
	return s.Path
}

// find looks for the start that was in effect at a time in a trail, and returns what is known then.
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

// Of are the servers that recorded what a block has, by time. The first one's time says
// nothing; its names are empty if it is not known.
func (s *Servers) Of(ref *BlockRef) []Server {
	if s == nil {
		return []Server{{Since: math.MinInt64}}
	}
	trail := ref.Segment.Stream.trail()
	s.mu.RLock()
	known := s.of[trail]
	lacks := slices.ContainsFunc(s.search, func(l *startSearch) bool { return l.mayFind(trail, ref.FirstTime) })
	s.mu.RUnlock()
	if lacks {
		known = s.find(trail, ref.FirstTime)
	}
	all := []Server{{Since: math.MinInt64}}
	for _, one := range known {
		switch {
		case one.Since <= ref.FirstTime:
			all[0] = one
		case one.Since <= ref.LastEnd:
			all = append(all, one)
		}
	}
	return all
}
