// The names of numbers in records.def.

package format

import (
	"slices"
	"strconv"
)

// nameOf returns the name of n in a list of records.def, or prefix_n for a number that this program does not
// know, because a newer writer may use it.
func nameOf(names []string, prefix string, n uint64) string {
	if n < uint64(len(names)) && names[n] != "" {
		return names[n]
	}
	return prefix + "_" + strconv.FormatUint(n, 10)
}

func (k Kind) String() string         { return nameOf(namesKind[:], "kind", uint64(k)) }
func (o Outcome) String() string      { return nameOf(namesOutcome[:], "outcome", uint64(o)) }
func (e Event) String() string        { return nameOf(namesEvent[:], "event", uint64(e)) }
func (c Class) String() string        { return nameOf(namesClass[:], "class", uint64(c)) }
func (k Key) String() string          { return nameOf(namesKey[:], "key", uint64(k)) }
func (t RelationType) String() string { return nameOf(namesRelationType[:], "type", uint64(t)) }
func (r Repr) String() string         { return nameOf(namesRepr[:], "repr", uint64(r)) }
func (c Codec) String() string        { return nameOf(namesCodec[:], "codec", uint64(c)) }

func (t Terms) String() string { return nameOf(namesTerms[:], "list", uint64(t)) }

func (a Action) String() string { return nameOf(namesAction[:], "action", uint64(a)) }

// AppendNames appends the names of the bits that are set, with commas between.
func (a Access) AppendNames(dst []byte) []byte {
	first := true
	for name := range a.Names {
		if !first {
			dst = append(dst, ',')
		}
		first = false
		dst = append(dst, name...)
	}
	return dst
}

// Bits yields each bit that is set.
func (a Access) Bits(yield func(Access) bool) {
	for ; a != 0; a &= a - 1 {
		if !yield(a & -a) {
			return
		}
	}
}

// Names yields the names of the bits that are set.
func (a Access) Names(yield func(string) bool) {
	for bit := uint64(0); bit < 64; bit++ {
		if a&(1<<bit) != 0 && !yield(nameOf(namesAccess[:], "access", bit)) {
			return
		}
	}
}

// Names yields the names of the bits that are set.
func (a Audited) Names(yield func(string) bool) {
	for bit := uint64(0); bit < 8; bit++ {
		if a&(1<<bit) != 0 && !yield(nameOf(namesAudited[:], "audited", bit)) {
			return
		}
	}
}

// IsRecord returns whether the kind is that of a record, which has a number and is counted.
func (k Kind) IsRecord() bool { return k >= 1 && k <= 63 }

// Names returns the names of all kinds, classes and outcomes that filters accept. The slices are shared: do not
// change them.
func Names() (kinds, classes, outcomes []string) { return filterKinds, filterClasses, namesOutcome[:] }

var filterKinds, filterClasses = func() (kinds, classes []string) {
	for k := Kind(1); k <= 63; k++ {
		if int(k) < len(namesKind) && namesKind[k] != "" {
			kinds = append(kinds, namesKind[k])
		}
	}
	for _, c := range namesClass {
		if c != "" {
			classes = append(classes, c)
		}
	}
	return slices.Clip(kinds), slices.Clip(classes)
}()

// Reasons returns the names of the reasons for which a record can have been written.
func Reasons() []string { return namesAudited[:] }

// WriterBackendType is the backend type of the sessions of writers. These have no disconnect record, because
// the last record of a writer is in its last block.
const WriterBackendType = "steno writer"
