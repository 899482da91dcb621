package trail

import "bytes"

// IndexBytes indexes a segment in memory, without its header.
func IndexBytes(data []byte) []BlockRef {
	seg := &Segment{Path: "memory", Size: int64(len(data))}
	refs, _ := seg.index(bytes.NewReader(data))
	return refs
}
