// Which server wrote a trail: what its records of starts say.

package trail

import (
	"cmp"
	"encoding/binary"
	"math"
	"slices"
	"sync"
)

// Server is what a trail says of the server that recorded from a time on, until the next one.
type Server struct {
	Since   int64
	Host    string
	Cluster string // cluster_name
}

// Servers are those of one or more trails. It may be used by many goroutines.
type Servers struct {
	mu sync.RWMutex
	of map[string][]Server // by the directory of the trail, in the order of their times
}

// Servers finds the records in which servers say where they start. They are in stream 0, and
// in streams that begin because their trail was copied; where a segment's index does not say
// which blocks have such records, it looks at each block's kinds of records. What retention
// has deleted is not known.
func (x *Index) Servers() *Servers {
	s := &Servers{}
	files := &Files{}
	defer files.Close()
	var b Block
	server := MergeOptions{Contents: func(c *Contents) Groups {
		return c.SelectResult(func(k Kind, _ Outcome) bool { return k == KindServer })
	}}
	for i := range x.Streams {
		stream := &x.Streams[i]
		for k := range stream.Segments {
			one := &stream.Segments[k]
			if one.Records == 0 || one.Segment.KeyErr != nil {
				continue
			}
			refs, _ := one.refs()
			if stream.Stream.Number != 0 && k > 0 {
				break // other writers record no start
			}
			if stream.Stream.Number != 0 {
				refs = refs[:min(1, len(refs))]
			}
			for _, ref := range server.skip(files, refs) {
				if ref.Records > 0 && files.Read(&ref, &b) == nil {
					s.noteBlock(&ref, &b)
				}
			}
		}
	}
	return s
}

// noteBlock takes what a block says. Its records are only decoded if one is of a server.
func (s *Servers) noteBlock(ref *BlockRef, b *Block) {
	if !b.hasKind(KindServer) {
		return
	}
	var r Record
	for b.Next(&r) == nil {
		if r.Kind == KindServer {
			s.Note(ref, &r)
		}
	}
}

// hasKind says whether the block may have a record of a kind.
func (b *Block) hasKind(kind Kind) bool {
	for at := b.raw; len(at) > 0; {
		n, w := binary.Uvarint(at)
		if w <= 0 || n == 0 || n > uint64(len(at)-w) {
			return true // the reader tells
		}
		if Kind(at[w]) == kind {
			return true
		}
		at = at[w+int(n):]
	}
	return false
}

// Note takes what a record says of its server, if it does.
func (s *Servers) Note(ref *BlockRef, r *Record) {
	if s == nil || r.Kind != KindServer {
		return
	}
	event, _ := r.ExtraValue("event")
	host, ok := r.ExtraValue("host")
	if !ok || string(event) != "start" && string(event) != "branch" {
		return
	}
	cluster, _ := r.ExtraValue("cluster_name")
	s.Add(ref.Segment.Stream.trail(), Server{Since: r.Time, Host: string(host), Cluster: string(cluster)})
}

// Add adds a server of the trail in a directory.
func (s *Servers) Add(trail string, one Server) {
	s.mu.Lock()
	defer s.mu.Unlock()
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

// Of are the servers that recorded what a block has, by time. The first one's time says
// nothing; its names are empty if it is not known.
func (s *Servers) Of(ref *BlockRef) []Server {
	if s == nil {
		return []Server{{Since: math.MinInt64}}
	}
	s.mu.RLock()
	known := s.of[ref.Segment.Stream.trail()]
	s.mu.RUnlock()
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
