// The values of a result, as text and as JSON.

package sql

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"math"
	"math/big"
	"strconv"
	"time"
	"unsafe"

	duckdb "github.com/duckdb/duckdb-go-bindings"

	"github.com/pg-steno/pg_steno/internal/render"
)

// Result has the rows of a statement. DuckDB produces them while they are read, once.
type Result struct {
	Columns []ResultColumn

	db     *DB
	ctx    context.Context
	result duckdb.Result
	chunk  duckdb.DataChunk
	size   int
	row    int
}

// ResultColumn is a column of a result.
type ResultColumn struct {
	Name    string
	Numeric bool
	value   *value
}

// value is a column of the current chunk, or a part of such a column.
type value struct {
	id       duckdb.Type
	internal duckdb.Type // the type in which a DECIMAL or ENUM is stored
	scale    int
	names    []string // of the values of an ENUM, or the fields of a STRUCT
	parts    []*value
	length   int // of an ARRAY
	data     unsafe.Pointer
	valid    unsafe.Pointer
	zone     *time.Location
}

func (r *Result) describe() {
	for i := range duckdb.ColumnCount(&r.result) {
		t := duckdb.ColumnLogicalType(&r.result, i)
		v := valueOf(t, r.db.options.Location)
		duckdb.DestroyLogicalType(&t)
		r.Columns = append(r.Columns, ResultColumn{duckdb.ColumnName(&r.result, i), isNumeric(v.id), v})
	}
}

func isNumeric(t duckdb.Type) bool {
	switch t {
	case duckdb.TypeTinyInt, duckdb.TypeSmallInt, duckdb.TypeInteger, duckdb.TypeBigInt, duckdb.TypeUTinyInt,
		duckdb.TypeUSmallInt,
		duckdb.TypeUInteger, duckdb.TypeUBigInt, duckdb.TypeFloat, duckdb.TypeDouble, duckdb.TypeDecimal,
		duckdb.TypeHugeInt, duckdb.TypeUHugeInt:
		return true
	}
	return false
}

func valueOf(t duckdb.LogicalType, zone *time.Location) *value {
	v := &value{id: duckdb.GetTypeId(t), zone: zone}
	part := func(t duckdb.LogicalType) {
		v.parts = append(v.parts, valueOf(t, zone))
		duckdb.DestroyLogicalType(&t)
	}
	switch v.id {
	case duckdb.TypeDecimal:
		v.internal, v.scale = duckdb.DecimalInternalType(t), int(duckdb.DecimalScale(t))
	case duckdb.TypeEnum:
		v.internal = duckdb.EnumInternalType(t)
		for i := range duckdb.EnumDictionarySize(t) {
			v.names = append(v.names, duckdb.EnumDictionaryValue(t, duckdb.IdxT(i)))
		}
	case duckdb.TypeList, duckdb.TypeMap:
		part(duckdb.ListTypeChildType(t))
	case duckdb.TypeArray:
		v.length = int(duckdb.ArrayTypeArraySize(t))
		part(duckdb.ArrayTypeChildType(t))
	case duckdb.TypeStruct:
		for i := range duckdb.StructTypeChildCount(t) {
			v.names = append(v.names, duckdb.StructTypeChildName(t, i))
			part(duckdb.StructTypeChildType(t, i))
		}
	}
	return v
}

func (v *value) load(of duckdb.Vector) {
	v.data, v.valid = duckdb.VectorGetData(of), duckdb.VectorGetValidity(of)
	for i, p := range v.parts {
		switch v.id {
		case duckdb.TypeList, duckdb.TypeMap:
			p.load(duckdb.ListVectorGetChild(of))
		case duckdb.TypeArray:
			p.load(duckdb.ArrayVectorGetChild(of))
		default:
			p.load(duckdb.StructVectorGetChild(of, duckdb.IdxT(i)))
		}
	}
}

// Next advances to the next row, at first to the first one.
func (r *Result) Next() (bool, error) {
	if r.row++; r.row < r.size {
		return true, nil
	}
	r.close()
	for {
		if err := r.ctx.Err(); err != nil {
			return false, err
		}
		r.chunk = duckdb.FetchChunk(r.result)
		if r.chunk.Ptr == nil {
			if message := duckdb.ResultError(&r.result); message != "" {
				return false, r.db.executionError(r.ctx, message)
			}
			return false, r.ctx.Err()
		}
		if r.size = int(duckdb.DataChunkGetSize(r.chunk)); r.size > 0 {
			break
		}
		r.close()
	}
	for i := range r.Columns {
		r.Columns[i].value.load(duckdb.DataChunkGetVector(r.chunk, duckdb.IdxT(i)))
	}
	r.row = 0
	return true, nil
}

func (r *Result) close() {
	if r.chunk.Ptr != nil {
		duckdb.DestroyDataChunk(&r.chunk)
		r.chunk.Ptr = nil
	}
	r.size = 0
}

// IsNull returns whether a value of the row is NULL.
func (r *Result) IsNull(column int) bool { return r.Columns[column].value.isNull(r.row) }

// Append appends a value of the row as text. Strings are appended as they are.
func (r *Result) Append(dst []byte, column int) []byte {
	from := len(dst)
	c := &r.Columns[column]
	dst = c.value.append(dst, r.row)
	if c.value.id == duckdb.TypeVarchar {
		r.db.lookalikes.Check("value of column "+identifier(c.Name), dst[from:])
	}
	return dst
}

// AppendJSON appends a value of the row as JSON.
func (r *Result) AppendJSON(dst []byte, column int) []byte {
	return r.Columns[column].value.appendJSON(dst, r.row)
}

func (v *value) isNull(row int) bool {
	return v.valid != nil && *(*uint64)(unsafe.Add(v.valid, row/64*8))>>(row%64)&1 == 0
}

func read[T any](v *value, row int) T {
	return *(*T)(unsafe.Add(v.data, uintptr(row)*unsafe.Sizeof(*new(T))))
}

// bytes returns the bytes of a string. DuckDB owns them until the next chunk.
func (v *value) bytes(row int) []byte {
	p := unsafe.Add(v.data, row*16)
	n := int(*(*uint32)(p))
	if n <= inlined {
		return unsafe.Slice((*byte)(unsafe.Add(p, 4)), n)
	}
	return unsafe.Slice(*(**byte)(unsafe.Add(p, 8)), n)
}

// hugeint has the layout of DuckDB's HUGEINT.
type hugeint struct {
	lower uint64
	upper int64
}

func (h hugeint) big() *big.Int {
	n := big.NewInt(h.upper)
	return n.Lsh(n, 64).Add(n, new(big.Int).SetUint64(h.lower))
}

// elements returns the position and number of a row's elements in a list or an array.
func (v *value) elements(row int) (first, n int) {
	if v.id == duckdb.TypeArray {
		return row * v.length, v.length
	}
	l := read[list](v, row)
	return int(l.offset), int(l.length)
}

// append appends a value as text. Lists, structs and maps are appended as JSON.
func (v *value) append(dst []byte, row int) []byte {
	if v.isNull(row) {
		return dst
	}
	switch v.id {
	case duckdb.TypeBoolean:
		return strconv.AppendBool(dst, read[bool](v, row))
	case duckdb.TypeTinyInt:
		return strconv.AppendInt(dst, int64(read[int8](v, row)), 10)
	case duckdb.TypeSmallInt:
		return strconv.AppendInt(dst, int64(read[int16](v, row)), 10)
	case duckdb.TypeInteger:
		return strconv.AppendInt(dst, int64(read[int32](v, row)), 10)
	case duckdb.TypeBigInt:
		return strconv.AppendInt(dst, read[int64](v, row), 10)
	case duckdb.TypeUTinyInt:
		return strconv.AppendUint(dst, uint64(read[uint8](v, row)), 10)
	case duckdb.TypeUSmallInt:
		return strconv.AppendUint(dst, uint64(read[uint16](v, row)), 10)
	case duckdb.TypeUInteger:
		return strconv.AppendUint(dst, uint64(read[uint32](v, row)), 10)
	case duckdb.TypeUBigInt:
		return strconv.AppendUint(dst, read[uint64](v, row), 10)
	case duckdb.TypeFloat:
		return strconv.AppendFloat(dst, float64(read[float32](v, row)), 'g', -1, 32)
	case duckdb.TypeDouble:
		return strconv.AppendFloat(dst, read[float64](v, row), 'g', -1, 64)
	case duckdb.TypeHugeInt:
		return read[hugeint](v, row).big().Append(dst, 10)
	case duckdb.TypeUHugeInt:
		h := read[[2]uint64](v, row)
		n := new(big.Int).SetUint64(h[1])
		return n.Lsh(n, 64).Add(n, new(big.Int).SetUint64(h[0])).Append(dst, 10)
	case duckdb.TypeDecimal:
		return v.appendDecimal(dst, row)
	case duckdb.TypeVarchar:
		return append(dst, v.bytes(row)...)
	case duckdb.TypeBlob:
		return hex.AppendEncode(append(dst, `\x`...), v.bytes(row))
	case duckdb.TypeDate:
		return appendDate(dst, int64(read[int32](v, row)))
	case duckdb.TypeTime:
		return appendClock(dst, read[int64](v, row))
	case duckdb.TypeTimestamp:
		return appendTimestamp(dst, read[int64](v, row), nil)
	case duckdb.TypeTimestampTZ:
		return appendTimestamp(dst, read[int64](v, row), v.zone)
	case duckdb.TypeTimestampS:
		return appendTimestamp(dst, read[int64](v, row)*1e6, nil)
	case duckdb.TypeTimestampMS:
		return appendTimestamp(dst, read[int64](v, row)*1e3, nil)
	case duckdb.TypeTimestampNS:
		return appendTimestamp(dst, read[int64](v, row)/1e3, nil)
	case duckdb.TypeInterval:
		return appendInterval(dst, read[interval](v, row))
	case duckdb.TypeUUID:
		return appendUUID(dst, read[hugeint](v, row))
	case duckdb.TypeEnum:
		return append(dst, v.names[v.enum(row)]...)
	case duckdb.TypeList, duckdb.TypeMap, duckdb.TypeArray, duckdb.TypeStruct:
		return v.appendJSON(dst, row)
	}
	return append(dst, "(cast this to VARCHAR)"...)
}

func (v *value) enum(row int) int {
	switch v.internal {
	case duckdb.TypeUTinyInt:
		return int(read[uint8](v, row))
	case duckdb.TypeUSmallInt:
		return int(read[uint16](v, row))
	}
	return int(read[uint32](v, row))
}

func (v *value) appendDecimal(dst []byte, row int) []byte {
	var n *big.Int
	switch v.internal {
	case duckdb.TypeSmallInt:
		n = big.NewInt(int64(read[int16](v, row)))
	case duckdb.TypeInteger:
		n = big.NewInt(int64(read[int32](v, row)))
	case duckdb.TypeBigInt:
		n = big.NewInt(read[int64](v, row))
	default:
		n = read[hugeint](v, row).big()
	}
	if n.Sign() < 0 {
		dst = append(dst, '-')
		n.Neg(n)
	}
	digits := n.String()
	for len(digits) <= v.scale {
		digits = "0" + digits
	}
	dst = append(dst, digits[:len(digits)-v.scale]...)
	if v.scale > 0 {
		dst = append(append(dst, '.'), digits[len(digits)-v.scale:]...)
	}
	return dst
}

// appendJSON appends a value as JSON. Numbers that JSON cannot express are appended as strings.
func (v *value) appendJSON(dst []byte, row int) []byte {
	if v.isNull(row) {
		return append(dst, "null"...)
	}
	switch v.id {
	case duckdb.TypeBoolean:
		return v.append(dst, row)
	case duckdb.TypeFloat, duckdb.TypeDouble:
		f := 0.0
		if v.id == duckdb.TypeFloat {
			f = float64(read[float32](v, row))
		} else {
			f = read[float64](v, row)
		}
		if !math.IsNaN(f) && !math.IsInf(f, 0) {
			return v.append(dst, row)
		}
	case duckdb.TypeVarchar:
		return render.AppendJSON(dst, v.bytes(row))
	case duckdb.TypeTimestampTZ:
		return append(appendRFC3339(append(dst, '"'), read[int64](v, row), v.zone), '"')
	case duckdb.TypeList, duckdb.TypeArray:
		dst = append(dst, '[')
		first, n := v.elements(row)
		for i := range n {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = v.parts[0].appendJSON(dst, first+i)
		}
		return append(dst, ']')
	case duckdb.TypeStruct:
		dst = append(dst, '{')
		for i, p := range v.parts {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = append(render.AppendJSON(dst, []byte(v.names[i])), ':')
			dst = p.appendJSON(dst, row)
		}
		return append(dst, '}')
	case duckdb.TypeMap:
		dst = append(dst, '{')
		first, n := v.elements(row)
		for i := range n {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = append(render.AppendJSON(dst, v.parts[0].parts[0].append(nil, first+i)), ':')
			dst = v.parts[0].parts[1].appendJSON(dst, first+i)
		}
		return append(dst, '}')
	default:
		if isNumeric(v.id) {
			return v.append(dst, row)
		}
	}
	return render.AppendJSON(dst, v.append(nil, row))
}

func appendUUID(dst []byte, h hugeint) []byte {
	var b [16]byte
	// DuckDB flips the highest bit, to order UUIDs as signed numbers
	binary.BigEndian.PutUint64(b[:], uint64(h.upper)^1<<63)
	binary.BigEndian.PutUint64(b[8:], h.lower)
	for i, part := range [][]byte{b[:4], b[4:6], b[6:8], b[8:10], b[10:]} {
		if i > 0 {
			dst = append(dst, '-')
		}
		dst = hex.AppendEncode(dst, part)
	}
	return dst
}

func appendDate(dst []byte, days int64) []byte {
	switch days {
	case math.MaxInt32:
		return append(dst, "infinity"...)
	case -math.MaxInt32:
		return append(dst, "-infinity"...)
	}
	return time.Unix(days*86400, 0).UTC().AppendFormat(dst, time.DateOnly)
}

// appendClock appends a time of day, or an interval's hours, which may be more than 24.
func appendClock(dst []byte, micros int64) []byte {
	u := uint64(micros)
	if micros < 0 {
		dst = append(dst, '-')
		u = -u
	}
	two := func(n uint64) {
		dst = append(dst, byte('0'+n/10), byte('0'+n%10))
	}
	if hours := u / 3600e6; hours < 100 {
		two(hours)
	} else {
		dst = strconv.AppendUint(dst, hours, 10)
	}
	dst = append(dst, ':')
	two(u / 60e6 % 60)
	dst = append(dst, ':')
	two(u / 1e6 % 60)
	if u %= 1e6; u > 0 {
		dst = append(dst, '.')
		for scale := uint64(1e5); u > 0; scale /= 10 {
			dst = append(dst, byte('0'+u/scale))
			u %= scale
		}
	}
	return dst
}

func appendInterval(dst []byte, i interval) []byte {
	part := func(n int32, unit string) {
		if n != 0 {
			dst = append(strconv.AppendInt(dst, int64(n), 10), unit...)
			if n != 1 && n != -1 {
				dst = append(dst, 's')
			}
			dst = append(dst, ' ')
		}
	}
	part(i.months/12, " year")
	part(i.months%12, " month")
	part(i.days, " day")
	if i.micros == 0 && len(dst) > 0 && (i.months != 0 || i.days != 0) {
		return dst[:len(dst)-1]
	}
	return appendClock(dst, i.micros)
}

// moment converts a time of DuckDB; infinite is its text if it is infinity or -infinity.
func moment(micros int64) (t time.Time, infinite string) {
	switch micros {
	case math.MaxInt64:
		return t, "infinity"
	case -math.MaxInt64:
		return t, "-infinity"
	}
	return time.UnixMicro(micros), ""
}

// appendTimestamp appends a time as PostgreSQL prints it; zone is nil for a timestamp without time zone.
func appendTimestamp(dst []byte, micros int64, zone *time.Location) []byte {
	t, infinite := moment(micros)
	switch {
	case infinite != "":
		return append(dst, infinite...)
	case zone == nil:
		return t.UTC().AppendFormat(dst, "2006-01-02 15:04:05.999999")
	}
	t = t.In(zone)
	dst = t.AppendFormat(dst, "2006-01-02 15:04:05.999999")
	if _, seconds := t.Zone(); seconds%3600 != 0 {
		return t.AppendFormat(dst, "-07:00")
	}
	return t.AppendFormat(dst, "-07")
}

func appendRFC3339(dst []byte, micros int64, zone *time.Location) []byte {
	t, infinite := moment(micros)
	if infinite != "" {
		return append(dst, infinite...)
	}
	return t.In(zone).AppendFormat(dst, "2006-01-02T15:04:05.000000Z07:00")
}
