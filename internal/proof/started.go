// Finds the start from which on records must be read to know the settings at the beginning of a range.

package proof

import (
	"github.com/pg-steno/pg_steno/internal/format"
	"github.com/pg-steno/pg_steno/internal/trail"
)

// startBefore is the place from which on a trail must be read to know the settings at a time: the server's last start
// before it, as segment headers state it. Headers are only hints. Everything must be read if the named segment has no
// start, or if servers have started in several streams, because it takes all of their starts to tell them apart.
type startBefore struct {
	from  int64 // MinTime: the start is not known
	named *trail.Segment
}

func findStartBefore(x *trail.Index, chosen func(*trail.Segment) bool, since int64) startBefore {
	b := startBefore{from: format.MaxTime}
	for i := range x.Streams {
		if !b.addStream(&x.Streams[i], chosen, since) {
			return startBefore{from: format.MinTime}
		}
	}
	if b.from == format.MaxTime || b.from < format.MinTime+late {
		return startBefore{from: format.MinTime}
	}
	b.from -= late // before the start was recorded, sessions may have recorded in other streams
	return b
}

// addStream adds the last start in a stream. It returns false if that is not known, or another stream has one, too.
func (b *startBefore) addStream(s *trail.StreamIndex, chosen func(*trail.Segment) bool, since int64) bool {
	var all []*trail.SegmentIndex
	for k := range s.Segments {
		if one := &s.Segments[k]; one.Records > 0 && one.FirstTime <= since && chosen(one.Segment) {
			all = append(all, one)
		}
	}
	if len(all) == 0 {
		return true
	}
	open := all[len(all)-1]
	b.from = min(b.from, open.FirstTime) // it may have a start, too
	if len(all) > 1 && (open.Segment.Err != nil || !open.Segment.Header.Before.Known()) {
		return false // written by a version whose headers name none
	}
	last := uint64(0)
	for k := len(all) - 1; k >= 0 && last == 0; k-- {
		last = all[k].Segment.Header.LastStart
	}
	if last == 0 {
		return true
	}
	for _, one := range all[:len(all)-1] {
		if one.Segment.Number == last && b.named == nil {
			b.from, b.named = min(b.from, one.FirstTime), one.Segment
			return true
		}
	}
	return false
}

// found reports whether the start was among the records that were read.
func (b *startBefore) found(c *conditions) bool {
	for i := range c.runs {
		if c.runs[i].stream != c.runs[0].stream {
			return false
		}
	}
	return c.hasBase() && (b.named == nil || c.startSegments[b.named])
}
