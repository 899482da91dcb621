// From which time on records tell which settings were in effect when a range begins.

package proof

import (
	"github.com/pg-steno/pg_steno/internal/format"
	"github.com/pg-steno/pg_steno/internal/trail"
)

// startBefore is where a trail tells which settings were in effect at a time: from the server's last start before it
// on, as segment headers say. They are hints: everything must be read if the named segment has no start, and if
// servers have started in several streams, which only all of their starts tell apart.
type startBefore struct {
	from  int64 // MinTime: it is not known
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
	b.from -= late // until the start was recorded, sessions may have recorded in other streams
	return b
}

// addStream adds the last start in a stream; false: it is not known, or another stream has one, too.
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
	b.from = min(b.from, open.FirstTime) // a start may also be in it
	if len(all) > 1 && (open.Segment.Err != nil || !open.Segment.Header.Before.Known()) {
		return false // a version that names none
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

// found says whether records that were read have the start.
func (b *startBefore) found(c *conditions) bool {
	for i := range c.runs {
		if c.runs[i].stream != c.runs[0].stream {
			return false
		}
	}
	return c.hasBase() && (b.named == nil || c.startSegments[b.named])
}
