// The names of numbers in records.def.

package format

import (
	"slices"
	"strconv"
)

// name is the name of n in a list of records.def, or prefix_n for a number that
// this program does not know: a newer writer may use it.
func name(names []string, prefix string, n uint64) string {
	if n < uint64(len(names)) && names[n] != "" {
		return names[n]
	}
	return prefix + "_" + strconv.FormatUint(n, 10)
}

func (k Kind) String() string         { return name(namesKind[:], "kind", uint64(k)) }
func (o Outcome) String() string      { return name(namesOutcome[:], "outcome", uint64(o)) }
func (e Event) String() string        { return name(namesEvent[:], "event", uint64(e)) }
func (c Class) String() string        { return name(namesClass[:], "class", uint64(c)) }
func (k Key) String() string          { return name(namesKey[:], "key", uint64(k)) }
func (t RelationType) String() string { return name(namesRelationType[:], "type", uint64(t)) }
func (r Repr) String() string         { return name(namesRepr[:], "repr", uint64(r)) }
func (c Codec) String() string        { return name(namesCodec[:], "codec", uint64(c)) }

func (t Terms) String() string { return name(namesTerms[:], "list", uint64(t)) }

func (a Action) String() string { return name(namesAction[:], "action", uint64(a)) }

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

// Bits yields the bits that are set, each by itself.
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
		if a&(1<<bit) != 0 && !yield(name(namesAccess[:], "access", bit)) {
			return
		}
	}
}

// Names yields the names of the bits that are set.
func (a Audited) Names(yield func(string) bool) {
	for bit := uint64(0); bit < 8; bit++ {
		if a&(1<<bit) != 0 && !yield(name(namesAudited[:], "audited", bit)) {
			return
		}
	}
}

// IsRecord says whether the kind is a record's: counted, and with a number.
func (k Kind) IsRecord() bool { return k >= 1 && k <= 63 }

// Names of all kinds, classes and outcomes that can stand in a filter. They are for all callers: do not change them.
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

// Reasons are the names of why a record can have been written.
func Reasons() []string { return namesAudited[:] }

// WriterBackendType is the backend type in the sessions of writers. These have
// no disconnect record: a writer's last record stands in the last block.
const WriterBackendType = "steno writer"
