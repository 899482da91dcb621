// Skipping of blocks that have nothing wanted according to an index of the server.

package trail

import (
	"slices"

	"github.com/pg-steno/pg_steno/internal/format"
)

// mayBeContents returns whether a block may consist of an index.
func (r *BlockRef) mayBeContents() bool {
	return r.Records == 0 && r.Raw > 0 && r.Raw <= format.MaxIndex
}

// Contents reads the indexes among the blocks of a segment. It ignores those that cannot be read: then the
// blocks that they cover are read.
func (fs *Files) Contents(refs []BlockRef) (all []*format.Contents) {
	var b format.Block
	for i := range refs {
		if !refs[i].mayBeContents() || fs.Read(&refs[i], &b) != nil {
			continue
		}
		if c, err := b.Contents(); err == nil && c != nil {
			all = append(all, c)
		}
	}
	return all
}

// skip removes the blocks of a segment that have nothing wanted according to its indexes.
func (m *MergeOptions) skip(files *Files, refs []BlockRef) []BlockRef {
	if m.Contents == nil {
		return refs
	}
	type selected struct {
		*format.Contents
		groups format.Groups
	}
	var all []selected
	for _, c := range files.Contents(refs) {
		all = append(all, selected{c, m.Contents(c)})
	}
	if len(all) == 0 {
		return refs
	}
	kept := make([]BlockRef, 0, len(refs))
	for _, ref := range refs {
		if slices.ContainsFunc(all, func(s selected) bool {
			i, ok := s.GroupOf(ref.Number)
			return ok && !s.groups.Has(i)
		}) {
			if m.Skipped != nil {
				m.Skipped(&ref)
			}
			continue
		}
		kept = append(kept, ref)
	}
	return kept
}
