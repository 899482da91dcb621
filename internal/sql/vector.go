// Writes values directly into DuckDB's vectors, without allocating Go values.

package sql

import (
	"math"
	"slices"
	"unicode/utf8"
	"unsafe"

	duckdb "github.com/duckdb/duckdb-go-bindings"
)

// chunkSize is the number of rows that DuckDB requests at once.
var chunkSize = int(duckdb.VectorSize())

// vector is a column of the chunk that is being filled, or a part of such a column.
type vector struct {
	of     duckdb.Vector
	data   unsafe.Pointer
	valid  unsafe.Pointer // a bit for each row, initially all set
	fields []*vector      // of a struct; of a list, one: the vector of its elements

	isList    bool
	used, cap int // elements of a list

	stringBytes *int // counts the bytes of strings that DuckDB has copied for the chunk

	enum    map[string]uint8 // the numbers of an ENUM's values, by name
	unknown bool             // setName got a name that the ENUM does not have
}

// newVector makes the tree of vectors for a type. Each chunk gives it memory with start.
func newVector(t *Type, stringBytes *int) *vector {
	v := &vector{isList: t.Element != nil, stringBytes: stringBytes}
	if v.isList {
		v.fields = []*vector{newVector(t.Element, stringBytes)}
	}
	for _, f := range t.Fields {
		v.fields = append(v.fields, newVector(f.Type, stringBytes))
	}
	if t.names != nil {
		v.enum = map[string]uint8{}
		for i, name := range t.names {
			v.enum[name] = uint8(i)
		}
	}
	return v
}

// start begins to fill an empty vector of DuckDB.
func (v *vector) start(of duckdb.Vector) {
	v.of, v.used, v.cap = of, 0, chunkSize
	v.locate()
}

// locate gets the addresses of the values.
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

// relocate gets them again: reserving elements has moved the values.
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

// sawUnknown returns whether a name was not one of an ENUM's values.
func (v *vector) sawUnknown() bool {
	return v.unknown || slices.ContainsFunc(v.fields, (*vector).sawUnknown)
}

// finish sets the number of elements of lists in DuckDB.
func (v *vector) finish() {
	if v.isList {
		duckdb.ListVectorSetSize(v.of, duckdb.IdxT(v.used))
	}
	for _, f := range v.fields {
		f.finish()
	}
}

func element[T any](v *vector, row int) *T {
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

func (v *vector) setInt64(row int, n int64) { *element[int64](v, row) = n }
func (v *vector) setBool(row int, b bool)   { *element[bool](v, row) = b }

// setCount sets a count, or NULL if it is greater than any that PostgreSQL can have.
func (v *vector) setCount(row int, n uint64) {
	if n > math.MaxInt64 {
		v.setNull(row)
		return
	}
	*element[int64](v, row) = int64(n)
}

// interval has the layout of DuckDB's INTERVAL.
type interval struct {
	months, days int32
	micros       int64
}

func (v *vector) setMicros(row int, n uint64) {
	if n > math.MaxInt64 {
		v.setNull(row)
		return
	}
	*element[interval](v, row) = interval{micros: int64(n)}
}

// text has the layout of DuckDB's strings, 16 bytes: the length, and either up to `inlined` bytes of the
// string, or its first four bytes and a pointer.
type text [2]uint64

const inlined = 12

// setText sets a string. DuckDB copies strings that do not fit into the value.
func (v *vector) setText(row int, s []byte) {
	if len(s) > inlined {
		if !utf8.Valid(s) {
			s = []byte(string([]rune(string(s))))
		}
		if len(s) > math.MaxUint32 {
			v.setNull(row)
			return
		}
		*v.stringBytes += len(s)
		duckdb.UnsafeVectorAssignStringElementLen(v.of, duckdb.IdxT(row), s)
		return
	}
	if !utf8.Valid(s) {
		v.setText(row, []byte(string([]rune(string(s)))))
		return
	}
	t := element[text](v, row)
	*t = text{uint64(len(s))}
	copy((*[16]byte)(unsafe.Pointer(t))[4:], s)
}

// setName sets a string that the program chooses, which is a number if the column is an ENUM.
func (v *vector) setName(row int, s string) {
	if v.enum != nil {
		n, ok := v.enum[s]
		v.unknown = v.unknown || !ok
		*element[uint8](v, row) = n
		return
	}
	v.setText(row, unsafe.Slice(unsafe.StringData(s), len(s)))
}

// setNonEmpty sets a string, or NULL if it is empty.
func (v *vector) setNonEmpty(row int, s []byte) {
	if len(s) == 0 {
		v.setNull(row)
		return
	}
	v.setText(row, s)
}

// list has the layout of an entry of DuckDB's lists.
type list struct{ offset, length uint64 }

// setList begins a list of n elements. They are in the vector elements, from index first on.
func (v *vector) setList(row, n int) (elements *vector, first int) {
	first = v.used
	v.used += n
	if v.used > v.cap {
		v.cap = max(2*v.cap, v.used)
		duckdb.ListVectorReserve(v.of, duckdb.IdxT(v.cap))
		v.fields[0].relocate()
	}
	*element[list](v, row) = list{uint64(first), uint64(n)}
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

// cache keeps the values of a column by the index of the definition that they come from, so that each is built
// once in a chunk. What it keeps is 16 bytes of a string or list, whose memory DuckDB owns, or the number of an
// ENUM's value.
type cache struct {
	made       []kept
	generation uint32
}

type kept struct {
	generation uint32
	null       bool
	value      text
}

// reset forgets all values.
func (c *cache) reset() { c.generation++ }

// get sets a value that is kept; false: it is not.
func (c *cache) get(v *vector, row, index int) bool {
	if index < 0 || index >= len(c.made) || c.made[index].generation != c.generation {
		return false
	}
	if k := &c.made[index]; k.null {
		v.setNull(row)
	} else if v.enum != nil {
		*element[uint8](v, row) = uint8(k.value[0])
	} else {
		*element[text](v, row) = k.value
	}
	return true
}

// maxCached bounds the memory of a cache.
const maxCached = 1 << 16

// put keeps the value that was set.
func (c *cache) put(v *vector, row, index int) {
	if index < 0 || index >= maxCached {
		return
	}
	for index >= len(c.made) {
		c.made = append(c.made, kept{})
	}
	null := *(*uint64)(unsafe.Add(v.valid, row/64*8))>>(row%64)&1 == 0
	if v.enum != nil {
		c.made[index] = kept{c.generation, null, text{uint64(*element[uint8](v, row))}}
		return
	}
	c.made[index] = kept{c.generation, null, *element[text](v, row)}
}
