// Writes values into DuckDB's vectors, without a Go value in between.

package sql

import (
	"math"
	"slices"
	"unicode/utf8"
	"unsafe"

	duckdb "github.com/duckdb/duckdb-go-bindings"
)

// chunkSize is how many rows DuckDB asks for at once.
var chunkSize = int(duckdb.VectorSize())

// A vector is a column of a chunk, or a part of one, that is being filled.
type vector struct {
	of     duckdb.Vector
	data   unsafe.Pointer
	valid  unsafe.Pointer // a bit for each row; all are set at first
	fields []*vector      // of a struct, or the one of a list, which are its elements

	isList    bool
	used, cap int // elements of a list

	long *int // bytes of strings that DuckDB has copied for the chunk

	enum    map[string]uint8 // the values of an ENUM, by their names
	unknown bool             // a name was not one of these
}

// newVector makes the tree of a type, which start gives its memory.
func newVector(t *Type, long *int) *vector {
	v := &vector{isList: t.Element != nil, long: long}
	if v.isList {
		v.fields = []*vector{newVector(t.Element, long)}
	}
	for _, f := range t.Fields {
		v.fields = append(v.fields, newVector(f.Type, long))
	}
	if t.names != nil {
		v.enum = map[string]uint8{}
		for i, name := range t.names {
			v.enum[name] = uint8(i)
		}
	}
	return v
}

// start begins with an empty vector of DuckDB's.
func (v *vector) start(of duckdb.Vector) {
	v.of, v.used, v.cap = of, 0, chunkSize
	v.locate()
}

// locate gets where the values are.
func (v *vector) locate() {
	v.data = duckdb.VectorGetData(v.of)
	duckdb.VectorEnsureValidityWritable(v.of)
	v.valid = duckdb.VectorGetValidity(v.of)
	for i, f := range v.fields {
		if v.isList {
			f.start(duckdb.ListVectorGetChild(v.of))
		} else {
			f.start(duckdb.StructVectorGetChild(v.of, duckdb.IdxT(i)))
		}
	}
}

// relocate does this again after elements were reserved: values that are there have moved.
func (v *vector) relocate() {
	v.data = duckdb.VectorGetData(v.of)
	duckdb.VectorEnsureValidityWritable(v.of)
	v.valid = duckdb.VectorGetValidity(v.of)
	if !v.isList {
		for _, f := range v.fields {
			f.relocate()
		}
	}
}

// sawUnknown says whether an ENUM did not have a name.
func (v *vector) sawUnknown() bool {
	return v.unknown || slices.ContainsFunc(v.fields, (*vector).sawUnknown)
}

// finish tells DuckDB how many elements lists have.
func (v *vector) finish() {
	if v.isList {
		duckdb.ListVectorSetSize(v.of, duckdb.IdxT(v.used))
	}
	for _, f := range v.fields {
		f.finish()
	}
}

func at[T any](v *vector, row int) *T {
	return (*T)(unsafe.Add(v.data, uintptr(row)*unsafe.Sizeof(*new(T))))
}

func (v *vector) setNull(row int) {
	*(*uint64)(unsafe.Add(v.valid, row/64*8)) &^= 1 << (row % 64)
	if !v.isList {
		for _, f := range v.fields {
			f.setNull(row)
		}
	}
}

func (v *vector) setInt64(row int, n int64) { *at[int64](v, row) = n }
func (v *vector) setBool(row int, b bool)   { *at[bool](v, row) = b }

// setCount sets a count that is greater than any that PostgreSQL has to NULL.
func (v *vector) setCount(row int, n uint64) {
	if n > math.MaxInt64 {
		v.setNull(row)
		return
	}
	*at[int64](v, row) = int64(n)
}

// interval is DuckDB's.
type interval struct {
	months, days int32
	micros       int64
}

func (v *vector) setMicros(row int, n uint64) {
	if n > math.MaxInt64 {
		v.setNull(row)
		return
	}
	*at[interval](v, row) = interval{micros: int64(n)}
}

// text is DuckDB's string of 16 bytes: its length, and up to inlined bytes, or the first
// four and a pointer.
type text [2]uint64

const inlined = 12

// setText sets a string. DuckDB copies what does not fit into the value itself.
func (v *vector) setText(row int, s []byte) {
	if len(s) > inlined {
		if !utf8.Valid(s) {
			s = []byte(string([]rune(string(s))))
		}
		if len(s) > math.MaxUint32 {
			v.setNull(row)
			return
		}
		*v.long += len(s)
		duckdb.UnsafeVectorAssignStringElementLen(v.of, duckdb.IdxT(row), s)
		return
	}
	if !utf8.Valid(s) {
		v.setText(row, []byte(string([]rune(string(s)))))
		return
	}
	t := at[text](v, row)
	*t = text{uint64(len(s))}
	copy((*[16]byte)(unsafe.Pointer(t))[4:], s)
}

// setName sets a string that the program chooses, which may be a value of an ENUM.
func (v *vector) setName(row int, s string) {
	if v.enum != nil {
		n, ok := v.enum[s]
		v.unknown = v.unknown || !ok
		*at[uint8](v, row) = n
		return
	}
	v.setText(row, unsafe.Slice(unsafe.StringData(s), len(s)))
}

// setNonEmpty sets a string, or NULL if there is none.
func (v *vector) setNonEmpty(row int, s []byte) {
	if len(s) == 0 {
		v.setNull(row)
		return
	}
	v.setText(row, s)
}

// list is DuckDB's.
type list struct{ offset, length uint64 }

// setList begins a list of n elements: they are those of the vector from first on.
func (v *vector) setList(row, n int) (elements *vector, first int) {
	first = v.used
	v.used += n
	if v.used > v.cap {
		v.cap = max(2*v.cap, v.used)
		duckdb.ListVectorReserve(v.of, duckdb.IdxT(v.cap))
		v.fields[0].relocate()
	}
	*at[list](v, row) = list{uint64(first), uint64(n)}
	return v.fields[0], first
}

// setNames sets a list of strings.
func (v *vector) setNames(row int, names []string) {
	elements, i := v.setList(row, len(names))
	for _, name := range names {
		elements.setName(i, name)
		i++
	}
}

// A cache keeps values of a column by the index of the definition that they come from, so
// that each is made once in a chunk: 16 bytes that DuckDB owns, a string or a list; or the number
// of an ENUM's value.
type cache struct {
	made []kept
	now  uint32
}

type kept struct {
	when  uint32
	null  bool
	value text
}

// reset forgets all.
func (c *cache) reset() { c.now++ }

// get sets what is kept.
func (c *cache) get(v *vector, row, index int) bool {
	if index < 0 || index >= len(c.made) || c.made[index].when != c.now {
		return false
	}
	if k := &c.made[index]; k.null {
		v.setNull(row)
	} else if v.enum != nil {
		*at[uint8](v, row) = uint8(k.value[0])
	} else {
		*at[text](v, row) = k.value
	}
	return true
}

// maxCached bounds what a cache takes.
const maxCached = 1 << 16

// put keeps what was set.
func (c *cache) put(v *vector, row, index int) {
	if index < 0 || index >= maxCached {
		return
	}
	for index >= len(c.made) {
		c.made = append(c.made, kept{})
	}
	null := *(*uint64)(unsafe.Add(v.valid, row/64*8))>>(row%64)&1 == 0
	if v.enum != nil {
		c.made[index] = kept{c.now, null, text{uint64(*at[uint8](v, row))}}
		return
	}
	c.made[index] = kept{c.now, null, *at[text](v, row)}
}
