// Following a trail from a position, block by block, for those who pass it on.

package trail

import (
	"context"
	"iter"

	"github.com/pg-steno/pg_steno/internal/format"
)

// FollowFrom starts to follow the trail directory at the blocks of its streams that a function names: what the trail
// has already, from there on, comes first. Streams that are found later are read from their beginning.
func (x *Index) FollowFrom(path string, from func(stream uint32) uint64) *Live {
	l := x.Follow(path)
	for _, s := range l.streams {
		stream := &x.Streams[s.index]
		s.from = from(stream.Stream.Number)
		first := 0
		for i := range stream.Segments {
			if seg := stream.Segments[i].Segment; seg.Err == nil && seg.Header.FirstBlock <= s.from {
				first = i
			}
		}
		if len(stream.Segments) > 0 {
			s.segment = stream.Segments[first].Segment
			s.offset, s.block, s.before = s.segment.firstBlockOffset(), 0, 0
		}
	}
	return l
}

// PollBlocks reads new blocks, stream by stream, as they are stored: compressed and encrypted. Their checksums are
// right; nothing else was checked. The image, header and stored payload, is valid until take returns; an error of
// take ends the poll, and the block counts as not read. Each problem is reported once. If another trail is in the place
// of this one by now, the error is ErrReplaced.
func (l *Live) PollBlocks(
	ctx context.Context, warn func(error), take func(ref *BlockRef, image []byte) error,
) error {
	defer l.files.Close()
	l.discover(warn)
	return l.followAll(ctx, follower{
		read:       func(ref *BlockRef) error { return l.files.readStored(ref, &l.block) },
		take:       func(_ context.Context, _ *liveStream, ref *BlockRef) error { return take(ref, l.block.Image) },
		beforeHole: func() error { return nil },
		warn:       warn,
		verifies:   true,
	})
}

// PollRecords does the same, and hands out the records of each block, too. They, and their bytes, are valid until take
// returns. A block whose key was not given ends the poll with an error: it is not passed over. Servers may be nil, or
// learns of each start of the server.
func (l *Live) PollRecords(
	ctx context.Context, servers *Servers, warn func(error),
	take func(ref *BlockRef, image []byte, records iter.Seq[*format.Record]) error,
) error {
	defer l.files.Close()
	l.discover(warn)
	j := &joiner{ctx, l.index, l.files}
	return l.followAll(ctx, follower{
		read: l.readBlock,
		take: func(_ context.Context, s *liveStream, ref *BlockRef) error {
			l.index.Streams[s.index].addLive(ref)
			return take(ref, l.block.Image, func(yield func(*format.Record) bool) {
				more := true
				all := func(*format.Record) bool { return more }
				errs := j.records(&l.block, ref, all, func(r *format.Record) {
					servers.Note(ref, r)
					more = more && yield(r)
				})
				for _, err := range errs {
					warn(err)
				}
			})
		},
		beforeHole: func() error { return nil },
		warn:       warn,
		verifies:   true,
		needsKeys:  true,
	})
}
