// Trails of several servers: those of each server are verified separately.

package verify

import (
	"fmt"
	"path/filepath"
	"slices"

	"github.com/pg-steno/pg_steno/internal/seal"
	"github.com/pg-steno/pg_steno/internal/trail"
)

// server has the trails of one server.
type server struct {
	system  uint64
	streams []*trail.Stream
}

// serversOf groups trails by server, according to the system identifier in the first segment of each trail with
// a readable header. A stream of another server in the folder of a trail still belongs to that trail: it is
// damage.
func serversOf(t *trail.Trail) (all []*server) {
	systems := map[string]uint64{}
	for _, s := range t.Streams {
		folder := filepath.Dir(s.Path)
		for _, seg := range s.Segments {
			if _, known := systems[folder]; !known && seg.Err == nil {
				systems[folder] = seg.Header.SystemID
			}
		}
	}
	for _, s := range t.Streams {
		system := systems[filepath.Dir(s.Path)]
		i := slices.IndexFunc(all, func(s *server) bool { return s.system == system })
		if i < 0 {
			i = len(all)
			all = append(all, &server{system: system})
		}
		all[i].streams = append(all[i].streams, s)
	}
	return all
}

// partOf returns the part of a trail, and of the checks, for one of the servers. The part of the first one
// includes what belongs to no server.
func partOf(t *trail.Trail, checks Checks, all []*server, i int) (trail.Trail, Checks) {
	partial := *t
	partial.Streams = all[i].streams
	if i > 0 {
		partial.Errors, partial.Foreign = nil, nil
	}
	anchors := checks.Anchors
	checks.Anchors = slices.DeleteFunc(slices.Clone(anchors), func(a *seal.Anchor) bool {
		k := slices.IndexFunc(all, func(s *server) bool { return s.system == a.SystemID })
		return max(k, 0) != i
	})
	return partial, checks
}

// join adds the report for the trails of another server.
func (r *Report) join(o *Report, system uint64) {
	r.Servers = append(r.Servers, fmt.Sprint(system))
	r.Streams, r.Segments, r.Blocks, r.Records = r.Streams+o.Streams, r.Segments+o.Segments, r.Blocks+o.Blocks,
		r.Records+o.Records
	r.Sessions, r.OpenSessions, r.Bytes = r.Sessions+o.Sessions, r.OpenSessions+o.OpenSessions, r.Bytes+o.Bytes
	r.EncryptedBlocks, r.UnreadBlocks = r.EncryptedBlocks+o.EncryptedBlocks, r.UnreadBlocks+o.UnreadBlocks
	r.Copies += o.Copies
	r.Failed = append(r.Failed, o.Failed...)
	r.GapRecords, r.LostRecords, r.Anchors = r.GapRecords+o.GapRecords, r.LostRecords+o.LostRecords,
		r.Anchors+o.Anchors
	if r.First == "" || o.First != "" && o.First < r.First {
		r.First = o.First
	}
	r.Last = max(r.Last, o.Last)
	for _, s := range o.Seals {
		s.System = fmt.Sprint(system)
		r.Seals = append(r.Seals, s)
	}
	r.Deleted, r.Branches = append(r.Deleted, o.Deleted...), append(r.Branches, o.Branches...)
	r.Problems, r.MoreProblems = append(r.Problems, o.Problems...), r.MoreProblems+o.MoreProblems
	r.Warnings, r.MoreWarnings = append(r.Warnings, o.Warnings...), r.MoreWarnings+o.MoreWarnings
	r.Unreadable, r.MoreUnreadable = append(r.Unreadable, o.Unreadable...), r.MoreUnreadable+o.MoreUnreadable
	r.Keyed, r.outdated = o.Keyed, r.outdated || o.outdated
	r.ends = append(r.ends, o.ends...)
	for _, id := range o.SealKeys {
		r.SealKeys = addKey(r.SealKeys, id)
	}
	for _, id := range o.EncryptionKeys {
		r.EncryptionKeys = addKey(r.EncryptionKeys, id)
	}
	r.setVerdict()
}
