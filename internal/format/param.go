// Parameters: their types and values, and how PostgreSQL prints them.

package format

import (
	"bytes"
	"encoding/binary"
	"math"
	"math/big"
	"strconv"
)

// Params yields the record's parameters in order: the type, and the value as it is stored, which is nil for
// NULL and for a value that was not recorded. It yields nothing if the record has no values. It returns whether
// all values match their types.
func (r *Record) Params(yield func(p ParamType, value []byte, null bool) bool) bool {
	if r.Shape == nil || len(r.Shape.Params) == 0 || !r.HasParams() {
		return true
	}
	if r.Shape.Params[0].Repr == ReprList && len(r.Shape.Params) == 1 {
		return r.listedParams(yield)
	}
	c, lost := cursor{b: r.Values}, false
	for i, p := range r.Shape.Params {
		null := i/8 < len(r.Nulls) && r.Nulls[i/8]&(1<<(i%8)) != 0
		var value []byte
		if int(p.Repr) >= len(fixedSize) && !null {
			// It is not known where this value ends, so the following ones cannot be read either.
			c.end()
			lost = true
		}
		if lost && !null {
			p.Repr = unknownRepr
		} else if !null {
			value = c.param(p.Repr)
			if c.bad {
				return false
			}
		}
		if r.isDecoded && p.Repr == ReprText {
			value = r.charset.decode(value)
		}
		if !yield(p, value, null) {
			return true
		}
	}
	return c.left() == 0
}

// listedNull marks NULL in a list of parameters.
const listedNull Repr = 0x80

// listedParams yields the parameters of a statement with very many: each value is stored with its type.
func (r *Record) listedParams(yield func(p ParamType, value []byte, null bool) bool) bool {
	values := cursor{b: r.Values}
	c := cursor{b: values.str()}
	n := c.varint()
	// Each parameter takes at least two bytes, so a short list cannot claim many.
	if values.bad || c.bad || values.left() > 0 || n > maxParams || n > uint64(c.left())/2 {
		return false
	}
	lost := false
	for range n {
		p := ParamType{OID: 0, Repr: unknownRepr}
		null := false
		var value []byte
		if !lost {
			p = ParamType{c.varint(), Repr(c.byte())}
			null = p.Repr&listedNull != 0
			p.Repr &^= listedNull
			if p.Repr == ReprList {
				return false
			}
		}
		if !lost && !null {
			if int(p.Repr) >= len(fixedSize) {
				// It is not known where this value ends, so the following ones cannot be read either.
				p.Repr, lost = unknownRepr, true
				c.end()
			} else {
				value = c.param(p.Repr)
			}
		}
		if c.bad {
			return false
		}
		if r.isDecoded && p.Repr == ReprText {
			value = r.charset.decode(value)
		}
		if !yield(p, value, null) {
			return true
		}
	}
	return c.left() == 0
}

// ParamsFit returns whether the values match their types: the result of Params.
func (r *Record) ParamsFit() bool {
	if r.Shape == nil || !r.HasParams() || !r.Has(FieldNulls) && r.Shape.fitsTypes(r.Values) {
		return true
	}
	return r.Params(func(ParamType, []byte, bool) bool { return true })
}

// fitsTypes returns whether values, none of which is NULL, match the shape's types. It returns true for types
// that it does not know, and for lists.
func (s *Shape) fitsTypes(values []byte) bool {
	if s.valuesSize >= 0 {
		return len(s.Params) == 0 || len(values) == s.valuesSize
	}
	at := 0
	for _, p := range s.Params {
		if int(p.Repr) >= len(fixedSize) {
			return false
		}
		n := uint64(fixedSize[p.Repr])
		if fixedSize[p.Repr] < 0 {
			n, at = readVarint(values, at)
		}
		_, at = readBytes(values, at, n)
	}
	return at == len(values)
}

// fixedSize returns the size of a shape's values; -1 if records with this shape may differ.
func (s *Shape) fixedSize() int {
	size := 0
	for _, p := range s.Params {
		if int(p.Repr) >= len(fixedSize) || fixedSize[p.Repr] < 0 {
			return -1
		}
		size += int(fixedSize[p.Repr])
	}
	return size
}

// HasParams returns whether the record's parameters were recorded.
func (r *Record) HasParams() bool {
	return r.Has(FieldValues) || r.Has(FieldNulls) || r.Parts[PartValues] > 0
}

// fixedSize has the sizes of values without a length; -1 marks values with one.
var fixedSize = [...]int8{
	ReprNone: 0, ReprBool: 1, ReprInt2: 2, ReprInt4: 4, ReprInt8: 8, ReprFloat4: 4, ReprFloat8: 8, ReprOID: 4,
	ReprText: -1, ReprBytea: -1, ReprNumeric: -1, ReprUUID: 16, ReprDate: 4, ReprTime: 8, ReprTimetz: 12,
	ReprTimestamp: 8, ReprTimestamptz: 8, ReprInterval: 16, ReprInet: -1, ReprCidr: -1, ReprChar: 1,
}

// unknownRepr stands for a value whose representation this program does not know.
const unknownRepr Repr = 255

// param reads the next value.
func (c *cursor) param(repr Repr) []byte {
	if n := fixedSize[repr]; n >= 0 {
		return c.bytes(uint64(n))
	}
	return c.str()
}

// NotRecorded stands for a value that could not be recorded.
const NotRecorded = "<not recorded>"

// AppendParam appends a value as the type's output function in PostgreSQL prints it with default settings, in
// the time zone UTC.
func AppendParam(dst []byte, repr Repr, v []byte) []byte {
	if int(repr) >= len(fixedSize) {
		return append(dst, "<unknown representation>"...)
	}
	if n := fixedSize[repr]; n >= 0 && len(v) != int(n) || !inRange(repr, v) {
		return append(dst, "<damaged value>"...)
	}
	le := binary.LittleEndian
	switch repr {
	case ReprNone:
		return append(dst, NotRecorded...)
	case ReprBool:
		if v[0] != 0 {
			return append(dst, 't')
		}
		return append(dst, 'f')
	case ReprInt2:
		return strconv.AppendInt(dst, int64(int16(le.Uint16(v))), 10)
	case ReprInt4:
		return strconv.AppendInt(dst, int64(int32(le.Uint32(v))), 10)
	case ReprInt8:
		return strconv.AppendInt(dst, int64(le.Uint64(v)), 10)
	case ReprFloat4:
		return appendFloat(dst, float64(math.Float32frombits(le.Uint32(v))), 32)
	case ReprFloat8:
		return appendFloat(dst, math.Float64frombits(le.Uint64(v)), 64)
	case ReprOID:
		return strconv.AppendUint(dst, uint64(le.Uint32(v)), 10)
	case ReprText:
		return append(dst, v...)
	case ReprBytea:
		return appendHexBytes(append(dst, `\x`...), v)
	case ReprNumeric:
		return appendNumeric(dst, v)
	case ReprUUID:
		dst = append(appendHexBytes(dst, v[:4]), '-')
		dst = append(appendHexBytes(dst, v[4:6]), '-')
		dst = append(appendHexBytes(dst, v[6:8]), '-')
		dst = append(appendHexBytes(dst, v[8:10]), '-')
		return appendHexBytes(dst, v[10:])
	case ReprDate:
		return appendDate(dst, int32(le.Uint32(v)))
	case ReprTime:
		return appendTime(dst, int64(le.Uint64(v)))
	case ReprTimetz:
		return appendZone(appendTime(dst, int64(le.Uint64(v))), -int64(int32(le.Uint32(v[8:]))))
	case ReprTimestamp:
		return appendTimestamp(dst, int64(le.Uint64(v)), false)
	case ReprTimestamptz:
		return appendTimestamp(dst, int64(le.Uint64(v)), true)
	case ReprInterval:
		return appendInterval(dst, int64(le.Uint64(v)), int32(le.Uint32(v[8:])), int32(le.Uint32(v[12:])))
	case ReprInet:
		return appendInet(dst, v, false)
	case ReprCidr:
		return appendInet(dst, v, true)
	case ReprChar:
		return appendChar(dst, v[0])
	}
	return dst
}

// inRange returns whether PostgreSQL allows a time of day and its zone.
func inRange(repr Repr, v []byte) bool {
	const maxZone = 16*3600 - 1
	le := binary.LittleEndian
	if (repr == ReprTime || repr == ReprTimetz) && le.Uint64(v) > usecPerDay {
		return false
	}
	if repr == ReprTimetz {
		west := int32(le.Uint32(v[8:]))
		return -maxZone <= west && west <= maxZone
	}
	return true
}

func appendHexBytes(dst, v []byte) []byte {
	const digits = "0123456789abcdef"
	for _, c := range v {
		dst = append(dst, digits[c>>4], digits[c&15])
	}
	return dst
}

// appendChar appends a "char" as PostgreSQL 16 and later print it: bytes above 127 in octal, where older
// servers print the raw byte.
func appendChar(dst []byte, c byte) []byte {
	switch {
	case c == 0:
		return dst
	case c < 0x80:
		return append(dst, c)
	}
	return append(dst, '\\', '0'+c>>6, '0'+c>>3&7, '0'+c&7)
}

func appendFloat(dst []byte, v float64, bits int) []byte {
	switch {
	case math.IsNaN(v):
		return append(dst, "NaN"...)
	case math.IsInf(v, 1):
		return append(dst, "Infinity"...)
	case math.IsInf(v, -1):
		return append(dst, "-Infinity"...)
	}
	limit := 15
	if bits == 32 {
		limit = 6
	}
	mark := len(dst)
	precision := shortestDecimals(v, bits)
	dst = strconv.AppendFloat(dst, v, 'e', precision, bits)
	exp := 0
	for i := len(dst) - 1; i > mark; i-- {
		if dst[i] == 'e' {
			exp, _ = strconv.Atoi(string(dst[i+1:]))
			break
		}
	}
	if exp >= -4 && exp < limit {
		if precision >= 0 {
			precision = max(0, precision-exp)
		}
		dst = strconv.AppendFloat(dst[:mark], v, 'f', precision, bits)
	}
	return dst
}

// shortestDecimals returns the number of decimals after the first digit with which PostgreSQL prints a number;
// -1 for as many as strconv chooses. They differ if strconv's digits are exactly half-way between the number and
// the next one: then PostgreSQL prints more digits. Only whole numbers with more bits than the mantissa can be
// half-way and still be short.
func shortestDecimals(v float64, bits int) int {
	abs := math.Abs(v)
	low, digits := float64(1<<54), 17
	if bits == 32 {
		low, digits = 1<<25, 9
	}
	if abs < low || abs > 1e40 {
		return -1
	}
	var up, down float64
	if bits == 32 {
		up, down = float64(math.Nextafter32(float32(abs), math.MaxFloat32)),
			float64(math.Nextafter32(float32(abs), 0))
	} else {
		up, down = math.Nextafter(abs, math.MaxFloat64), math.Nextafter(abs, 0)
	}
	middle := func(s []byte) bool {
		text, _ := new(big.Rat).SetString(string(s))
		double := text.Add(text, text)
		exact, other := new(big.Rat).SetFloat64(abs), new(big.Rat)
		return double.Cmp(other.Add(exact, other.SetFloat64(up))) == 0 ||
			double.Cmp(other.Add(exact, other.SetFloat64(down))) == 0
	}
	s := strconv.AppendFloat(nil, abs, 'e', -1, bits)
	if !middle(s) {
		return -1
	}
	for n := 0; n < digits; n++ {
		s = strconv.AppendFloat(s[:0], abs, 'e', n, bits)
		if back, err := strconv.ParseFloat(string(s), bits); err == nil && back == abs && !middle(s) {
			return n
		}
	}
	return -1
}

// Bits of the header word of a packed numeric, as in numeric.c.
const (
	numericSignMask      = 0xC000
	numericNegative      = 0x4000
	numericShort         = 0x8000
	numericSpecial       = 0xC000
	numericNaN           = 0xC000
	numericPosInf        = 0xD000
	numericNegInf        = 0xF000
	numericSpecialMask   = 0xF000
	numericShortNegative = 0x2000
	numericDscaleMask    = 0x3FFF
)

// appendNumeric appends a packed numeric: a header word with sign and number of decimals, the weight of the
// first digit, and digits to the base 10000.
func appendNumeric(dst, v []byte) []byte {
	le := binary.LittleEndian
	if len(v) < 2 || len(v)%2 != 0 {
		return append(dst, "<damaged value>"...)
	}
	head := le.Uint16(v)
	digits := v[2:]
	var negative bool
	var dscale, weight int
	switch head & numericSignMask {
	case numericSpecial:
		switch head & numericSpecialMask {
		case numericPosInf:
			return append(dst, "Infinity"...)
		case numericNegInf:
			return append(dst, "-Infinity"...)
		}
		return append(dst, "NaN"...)
	case numericShort:
		negative = head&numericShortNegative != 0
		dscale = int(head>>7) & 0x3F
		weight = int(head & 0x3F)
		if head&0x40 != 0 {
			weight -= 64
		}
	default:
		if len(v) < 4 {
			return append(dst, "<damaged value>"...)
		}
		negative = head&numericSignMask == numericNegative
		dscale = int(head & numericDscaleMask)
		weight = int(int16(le.Uint16(v[2:])))
		digits = v[4:]
	}
	for i := 0; i < len(digits); i += 2 {
		if le.Uint16(digits[i:]) > 9999 {
			return append(dst, "<damaged value>"...)
		}
	}
	if zeros := unstoredZeros(len(digits)/2, weight, dscale); zeros > maxZeros {
		return appendScientific(dst, digits, negative, weight)
	}
	digit := func(i int) uint16 {
		if i < 0 || i >= len(digits)/2 {
			return 0
		}
		return le.Uint16(digits[2*i:])
	}
	if negative {
		dst = append(dst, '-')
	}
	if weight < 0 {
		dst = append(dst, '0')
	} else {
		dst = strconv.AppendUint(dst, uint64(digit(0)), 10)
		for i := 1; i <= weight; i++ {
			dst = append4(dst, digit(i))
		}
	}
	if dscale > 0 {
		dst = append(dst, '.')
		end := len(dst) + dscale
		for i := weight + 1; len(dst) < end; i++ {
			dst = append4(dst, digit(i))
		}
		dst = dst[:end]
	}
	return dst
}

// maxZeros limits the zeros that are printed although they are not stored: one byte can request a hundred
// thousand.
const maxZeros = 400

// unstoredZeros returns how many zeros PostgreSQL prints that are not stored, for a number with so many digits
// to the base 10000.
func unstoredZeros(digits, weight, dscale int) int {
	whole := max(0, weight+1)
	zeros := 4 * max(0, whole-digits)
	if weight < 0 {
		zeros += min(dscale, 4*(-weight-1))
	}
	return zeros + max(0, dscale-4*max(0, digits-weight-1))
}

// appendScientific appends a number as an integer and a power of ten, which PostgreSQL reads as the same
// number.
func appendScientific(dst, digits []byte, negative bool, weight int) []byte {
	if negative {
		dst = append(dst, '-')
	}
	from, exponent := len(dst), 4*(weight+1-len(digits)/2)
	for i := 0; i+1 < len(digits); i += 2 {
		dst = append4(dst, binary.LittleEndian.Uint16(digits[i:]))
	}
	number := bytes.TrimLeft(dst[from:], "0")
	if len(number) == 0 {
		return append(dst[:from], '0')
	}
	n := len(number)
	number = bytes.TrimRight(number, "0")
	exponent += n - len(number)
	if dst = append(dst[:from], number...); exponent == 0 {
		return dst
	}
	return strconv.AppendInt(append(dst, 'e'), int64(exponent), 10)
}

func append4(dst []byte, d uint16) []byte {
	return append(dst, byte('0'+d/1000%10), byte('0'+d/100%10), byte('0'+d/10%10), byte('0'+d%10))
}

const (
	usecPerDay  = 24 * 3600 * 1e6
	usecPerHour = 3600 * 1e6
	usecPerMin  = 60 * 1e6
)

// civil returns the date of a number of days since 2000-01-01, in the proleptic Gregorian calendar with a year
// 0.
func civil(days int64) (year int64, month, day int) {
	z := days + 730425 // days since 0000-03-01
	era := floorDiv(z, 146097)
	doe := z - era*146097
	yoe := (doe - doe/1460 + doe/36524 - doe/146096) / 365
	doy := doe - (365*yoe + yoe/4 - yoe/100)
	mp := (5*doy + 2) / 153
	day = int(doy - (153*mp+2)/5 + 1)
	month = int(mp + 3)
	year = yoe + era*400
	if month > 12 {
		month -= 12
		year++
	}
	return year, month, day
}

// appendCivil appends year-month-day; bc says that the year is before Christ. PostgreSQL counts years without a
// year 0.
func appendCivil(dst []byte, days int64) (out []byte, bc bool) {
	year, month, day := civil(days)
	if year <= 0 {
		year, bc = 1-year, true
	}
	for limit := int64(1000); limit > 1 && year < limit; limit /= 10 {
		dst = append(dst, '0')
	}
	dst = strconv.AppendInt(dst, year, 10)
	dst = append2(append(dst, '-'), month)
	return append2(append(dst, '-'), day), bc
}

func append2(dst []byte, n int) []byte {
	return append(dst, byte('0'+n/10%10), byte('0'+n%10))
}

func appendDate(dst []byte, days int32) []byte {
	switch days {
	case math.MaxInt32:
		return append(dst, "infinity"...)
	case math.MinInt32:
		return append(dst, "-infinity"...)
	}
	dst, bc := appendCivil(dst, int64(days))
	if bc {
		dst = append(dst, " BC"...)
	}
	return dst
}

func appendTime(dst []byte, usec int64) []byte {
	dst = append2(dst, int(usec/usecPerHour))
	dst = append2(append(dst, ':'), int(usec/usecPerMin%60))
	return appendSeconds(append(dst, ':'), usec%usecPerMin)
}

// appendSeconds appends seconds with as many decimals as they need.
func appendSeconds(dst []byte, usec int64) []byte {
	dst = append2(dst, int(usec/1e6))
	if usec %= 1e6; usec != 0 {
		dst = append(dst, '.')
		for div := int64(1e5); usec > 0; div /= 10 {
			dst = append(dst, byte('0'+usec/div))
			usec %= div
		}
	}
	return dst
}

// appendZone appends a zone's seconds east of UTC.
func appendZone(dst []byte, seconds int64) []byte {
	sign := byte('+')
	if seconds < 0 {
		sign, seconds = '-', -seconds
	}
	dst = append2(append(dst, sign), int(seconds/3600))
	if seconds%3600 != 0 {
		dst = append2(append(dst, ':'), int(seconds/60%60))
	}
	if seconds%60 != 0 {
		dst = append2(append(dst, ':'), int(seconds%60))
	}
	return dst
}

func appendTimestamp(dst []byte, usec int64, zone bool) []byte {
	switch usec {
	case math.MaxInt64:
		return append(dst, "infinity"...)
	case math.MinInt64:
		return append(dst, "-infinity"...)
	}
	days := floorDiv(usec, usecPerDay)
	dst, bc := appendCivil(dst, days)
	dst = appendTime(append(dst, ' '), usec-days*usecPerDay)
	if zone {
		dst = append(dst, "+00"...)
	}
	if bc {
		dst = append(dst, " BC"...)
	}
	return dst
}

// appendInterval appends an interval in the style "postgres".
func appendInterval(dst []byte, usec int64, days, months int32) []byte {
	if days == math.MaxInt32 && months == math.MaxInt32 && usec == math.MaxInt64 {
		return append(dst, "infinity"...)
	}
	if days == math.MinInt32 && months == math.MinInt32 && usec == math.MinInt64 {
		return append(dst, "-infinity"...)
	}
	zero, before := true, false
	part := func(n int64, unit string) {
		if n == 0 {
			return
		}
		if !zero {
			dst = append(dst, ' ')
		}
		if before && n > 0 {
			dst = append(dst, '+')
		}
		dst = strconv.AppendInt(dst, n, 10)
		dst = append(append(dst, ' '), unit...)
		if n != 1 {
			dst = append(dst, 's')
		}
		before, zero = n < 0, false
	}
	part(int64(months/12), "year")
	part(int64(months%12), "mon")
	part(int64(days), "day")
	if !zero && usec == 0 {
		return dst
	}
	if !zero {
		dst = append(dst, ' ')
	}
	abs := uint64(usec)
	if usec < 0 {
		dst, abs = append(dst, '-'), -abs
	} else if before {
		dst = append(dst, '+')
	}
	if hours := abs / usecPerHour; hours < 100 {
		dst = append2(dst, int(hours))
	} else {
		dst = strconv.AppendUint(dst, hours, 10)
	}
	dst = append2(append(dst, ':'), int(abs/usecPerMin%60))
	return appendSeconds(append(dst, ':'), int64(abs%usecPerMin))
}

// appendInet appends address and prefix length. If this covers the whole address, it is left out unless always
// is set.
func appendInet(dst, v []byte, always bool) []byte {
	const v4, v6 = 2, 3
	if len(v) < 2 || v[0] == v4 && len(v) != 6 || v[0] == v6 && len(v) != 18 || v[0] != v4 && v[0] != v6 {
		return append(dst, "<damaged value>"...)
	}
	bits := byte(32)
	if v[0] == v4 {
		dst = appendIPv4(dst, v[2:])
	} else {
		dst = appendIPv6(dst, v[2:])
		bits = 128
	}
	if always || v[1] != bits {
		dst = strconv.AppendUint(append(dst, '/'), uint64(v[1]), 10)
	}
	return dst
}

func appendIPv4(dst, a []byte) []byte {
	for i, b := range a[:4] {
		if i > 0 {
			dst = append(dst, '.')
		}
		dst = strconv.AppendUint(dst, uint64(b), 10)
	}
	return dst
}

// appendIPv6 appends an address as the server's inet_net_ntop does: the longest run of at least two zero words,
// or the first of several, becomes "::", and an IPv4 address in the last two words is printed as one.
func appendIPv6(dst, a []byte) []byte {
	var words [8]uint16
	for i := range words {
		words[i] = binary.BigEndian.Uint16(a[2*i:])
	}
	best, length := -1, 1
	for i := 0; i < 8; i++ {
		n := 0
		for i+n < 8 && words[i+n] == 0 {
			n++
		}
		if n > length {
			best, length = i, n
		}
		i += n
	}
	for i := 0; i < 8; i++ {
		if best >= 0 && i >= best && i < best+length {
			if i == best {
				dst = append(dst, ':')
			}
			continue
		}
		if i > 0 {
			dst = append(dst, ':')
		}
		if i == 6 && best == 0 && (length == 6 || length == 7 && words[7] != 1 || length == 5 && words[5] == 0xffff) {
			return appendIPv4(dst, a[12:])
		}
		dst = appendHex(dst, uint64(words[i]))
	}
	if best >= 0 && best+length == 8 {
		dst = append(dst, ':')
	}
	return dst
}

// AppendSecond appends date and time of a number of seconds since 2000-01-01 UTC, with a byte between them.
// Years before Christ are negative.
func AppendSecond(dst []byte, seconds int64, between byte) []byte {
	days := floorDiv(seconds, 86400)
	rest := int(seconds - days*86400)
	year, month, day := civil(days)
	if year < 0 {
		dst, year = append(dst, '-'), -year
	}
	for limit := int64(1000); limit > 1 && year < limit; limit /= 10 {
		dst = append(dst, '0')
	}
	dst = strconv.AppendInt(dst, year, 10)
	dst = append2(append(dst, '-'), month)
	dst = append2(append(dst, '-'), day)
	dst = append2(append(dst, between), rest/3600)
	dst = append2(append(dst, ':'), rest/60%60)
	return append2(append(dst, ':'), rest%60)
}
