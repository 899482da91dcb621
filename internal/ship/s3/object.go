// The names of objects.

package s3

import (
	"encoding/hex"
	"fmt"
	"path"
	"regexp"
	"strconv"
)

// An object has a range of the bytes of a segment's file. It is below PREFIX/<system identifier>/<stream>, and its
// name is
//
//	<segment>-<from>-<first block>-<last block>-<before>-<chain>-<content>.part
//
// or, if it is the whole file of a finished segment, the same with .steno. The segment has ten digits. A range begins
// at the byte From: at the beginning of the file, or where a block ends, and it ends where a block ends, or at the end
// of the file. So damaged bytes between two blocks are in it.
//
// Before and chain are the chain hashes of the blocks before the range, and at its end: the first range of a segment
// has that of the segment before, as its header says, and zeros if the header is damaged. Content is the SHA-256 of
// the bytes. All three have 16 hexadecimal digits: those of the first 8 bytes. A chain hash covers all that precedes
// it, so a stream that went back, and goes on otherwise, has other names, and who has a list of names knows what
// follows what.
type object struct {
	segment     uint64
	from        int64
	first, last uint64 // blocks; 0: there is none
	before      id
	chain       id
	content     id
	whole       bool
}

// id is the first bytes of a hash.
type id [8]byte

func idOf(hash [32]byte) id { return id(hash[:8]) }

func (i id) String() string { return hex.EncodeToString(i[:]) }

// Suffixes of names: of whole segments, parts, and manifests of whole segments.
const (
	wholeSuffix    = ".steno"
	partSuffix     = ".part"
	manifestSuffix = ".json"
)

func (o *object) base() string {
	return fmt.Sprintf("%010d-%d-%d-%d-%s-%s-%s", o.segment, o.from, o.first, o.last, o.before, o.chain, o.content)
}

func (o *object) name() string {
	if o.whole {
		return o.base() + wholeSuffix
	}
	return o.base() + partSuffix
}

var objectName = regexp.MustCompile(
	`^([0-9]{10})-(0|[1-9][0-9]*)-(0|[1-9][0-9]*)-(0|[1-9][0-9]*)-([0-9a-f]{16})-([0-9a-f]{16})-([0-9a-f]{16})` +
		`(\.steno|\.part)$`)

// parseObject reads the name of an object; ok is false if it is the name of something else.
func parseObject(name string) (o object, ok bool) {
	m := objectName.FindStringSubmatch(name)
	if m == nil {
		return o, false
	}
	var errs [4]error
	o.segment, errs[0] = strconv.ParseUint(m[1], 10, 64)
	o.from, errs[1] = strconv.ParseInt(m[2], 10, 64)
	o.first, errs[2] = strconv.ParseUint(m[3], 10, 64)
	o.last, errs[3] = strconv.ParseUint(m[4], 10, 64)
	for i, to := range []*id{&o.before, &o.chain, &o.content} {
		_, _ = hex.Decode(to[:], []byte(m[5+i]))
	}
	o.whole = m[8] == wholeSuffix
	ok = errs == [4]error{} && o.segment > 0 && o.first <= o.last && (!o.whole || o.from == 0)
	return o, ok
}

// streamPrefix is what the keys of a stream's objects begin with.
func (s *store) streamPrefix(system uint64, stream uint32) string {
	return s.prefix + fmt.Sprintf("%d/%d/", system, stream)
}

// base is the name of a key.
func base(key string) string { return path.Base(key) }
