// Finds a value in texts and parameters, in all forms in which statements can have it.

package review

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"math/big"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pg-steno/pg_steno/internal/format"
)

// value is the value to find. A text is this value if it is equal, or the same number, UUID, date, time or address.
type value struct {
	text    string
	number  *big.Rat // nil: not a number
	integer int64
	isInt   bool
	uuid    []byte     // nil: not a UUID
	moment  *time.Time // nil: not a date or time
	address netip.Addr
	digit   byte // of a number: its first digit that is not 0
}

// newValue parses the forms of a value.
func newValue(s string) *value {
	v := &value{text: s}
	if v.number = parseNumber(s); v.number != nil {
		if v.number.IsInt() && v.number.Num().IsInt64() {
			v.integer, v.isInt = v.number.Num().Int64(), true
		}
		v.digit = '0'
		if i := strings.IndexAny(s, "123456789"); i >= 0 && v.number.Sign() != 0 {
			v.digit = s[i]
		}
	}
	v.uuid = parseUUID(s)
	v.moment = parseTime(s)
	v.address, _ = netip.ParseAddr(strings.TrimSuffix(strings.TrimSuffix(s, "/32"), "/128"))
	return v
}

var numberFormat = regexp.MustCompile(`^[+-]?([0-9][0-9_]*(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]{1,3})?$`)

func parseNumber(s string) *big.Rat {
	s = strings.TrimSpace(s)
	const longest = 2000
	if len(s) == 0 || len(s) > longest || !numberFormat.MatchString(s) {
		return nil
	}
	s = strings.ReplaceAll(s, "_", "")
	r, ok := new(big.Rat).SetString(s)
	if !ok {
		return nil
	}
	return r
}

// moneyFormat matches amounts with a currency sign, or with commas between thousands.
var moneyFormat = regexp.MustCompile(
	`^([+-]?\(?)\p{Sc}?\s?([0-9]{1,3}(?:,[0-9]{3})+|[0-9]+)(\.[0-9]+)?\s?\p{Sc}?(\)?)$`)

// parseMoney reads an amount as type money writes it where commas separate thousands: -$1,234.50, or ($1,234.50).
func parseMoney(s string) *big.Rat {
	const longest = 60
	if len(s) > longest || strings.IndexByte(s, ',') < 0 && strings.IndexByte(s, '$') < 0 && !strings.ContainsFunc(s,
		func(r rune) bool {
			return r >= 0x80
		}) {
		return nil
	}
	m := moneyFormat.FindStringSubmatch(strings.TrimSpace(s))
	if m == nil {
		return nil
	}
	n := parseNumber(strings.ReplaceAll(m[2], ",", "") + m[3])
	if n != nil && (strings.HasPrefix(m[1], "-") || m[4] != "") {
		n.Neg(n)
	}
	return n
}

// parseUUID reads the forms that PostgreSQL accepts: also in braces, and with hyphens after any four digits.
func parseUUID(s string) []byte {
	s = strings.TrimSpace(s)
	if len(s) < 32 || len(s) > 41 {
		return nil
	}
	if s[0] == '{' && s[len(s)-1] == '}' {
		s = s[1 : len(s)-1]
	}
	b, err := hex.DecodeString(strings.ReplaceAll(s, "-", ""))
	if err != nil || len(b) != 16 {
		return nil
	}
	return b
}

// timeFormats are the layouts of dates and times, without and with a zone.
var timeFormats = []string{
	"2006-01-02", "20060102", "2006/01/02", "02.01.2006", "2006-01-02 15:04:05.999999999",
	"2006-01-02T15:04:05.999999999",
	"2006-01-02 15:04", "2006-01-02T15:04", "2006-01-02 15:04:05.999999999Z07", "2006-01-02 15:04:05.999999999Z07:00",
	"2006-01-02T15:04:05.999999999Z07:00",
	"2006-01-02 15:04:05.999999999 MST",
}

// parseTime reads a date or a time, which is in UTC if it has no zone.
func parseTime(s string) *time.Time {
	s = strings.TrimSpace(s)
	if len(s) < 8 || len(s) > 40 || s[0] < '0' || s[0] > '9' {
		return nil
	}
	for _, f := range timeFormats {
		if t, err := time.Parse(f, s); err == nil {
			t = t.UTC()
			return &t
		}
	}
	return nil
}

// equals reports whether the whole text is the value.
func (v *value) equals(s string) bool {
	if s == v.text {
		return true
	}
	if len(s) == 2+2*len(v.text) && strings.HasPrefix(s, `\x`) &&
		strings.EqualFold(s[2:], hex.EncodeToString([]byte(v.text))) {
		// bytea
		return true
	}
	switch {
	case v.number != nil && strings.IndexByte(s, v.digit) >= 0:
		n := parseNumber(s)
		if n == nil {
			n = parseMoney(s)
		}
		if n != nil && n.Cmp(v.number) == 0 {
			return true
		}
	case v.uuid != nil && len(s) >= 32 && bytes.Equal(parseUUID(s), v.uuid):
		return true
	case v.address.IsValid():
		a, err := netip.ParseAddr(strings.TrimSuffix(strings.TrimSuffix(s, "/32"), "/128"))
		return err == nil && a.Unmap() == v.address.Unmap()
	}
	if v.moment != nil {
		if t := parseTime(s); t != nil && t.Equal(*v.moment) {
			return true
		}
	}
	// char(n) has blanks at its end
	return strings.TrimRight(s, " ") == v.text && v.text != ""
}

// deepest limits the nesting of lists.
const deepest = 8

// inPart is the place of a value that is neither a whole string nor an element of a list in it.
const inPart = "part of a string"

// findIn returns where a text has the value: as a whole, as an element of a list (findElement), or as a word; empty
// if nowhere.
func (v *value) findIn(s string) string {
	if where := v.findElement(s); where != "" {
		return where
	}
	if v.text != "" && v.containsAsWord(s) {
		return inPart
	}
	return ""
}

// containsAsWord reports whether a text has the value as a word: in a URL, in XML, in a sentence. A number does not
// match a part of a date, a version or the like.
func (v *value) containsAsWord(s string) bool {
	if raw, ok := strings.CutPrefix(s, `\x`); ok && len(raw)%2 == 0 { // bytea, which may be text
		if b, err := hex.DecodeString(raw); err == nil && v.containsAsWord(string(b)) {
			return true
		}
	}
	isDigit := func(i int) bool { return i >= 0 && i < len(s) && s[i] >= '0' && s[i] <= '9' }
	joins := func(at, next int) bool {
		return v.number != nil && at >= 0 && at < len(s) && strings.IndexByte(".,:-", s[at]) >= 0 && isDigit(next)
	}
	for from := 0; ; {
		i := strings.Index(s[from:], v.text)
		if i < 0 {
			return false
		}
		i += from
		end := i + len(v.text)
		if (i == 0 || !isWordByte(s[i-1])) && (end == len(s) || !isWordByte(s[end])) && !joins(i-1, i-2) &&
			!joins(end, end+1) {
			return true
		}
		from = i + 1
	}
}

// findElement returns where a text has the value: as a whole, or as an element of an array, a row, JSON, or values
// separated by commas; empty if nowhere.
func (v *value) findElement(s string) string {
	if v.equals(s) {
		return "value"
	}
	if len(s) < 2 || !v.possible(s) {
		return ""
	}
	t := strings.TrimSpace(s)
	if t == "" {
		return ""
	}
	if t[0] == '{' || t[0] == '[' || t[0] == '"' {
		if found, ok := v.inJSON(t); ok && found {
			return "element of JSON"
		}
	}
	if t[0] == '{' || t[0] == '(' || t[0] == '[' {
		if v.inList(t, 0) {
			return "element of a list"
		}
		return ""
	}
	if strings.IndexByte(t, ',') >= 0 {
		for part := range strings.SplitSeq(t, ",") {
			if v.equals(strings.TrimSpace(part)) {
				return "element of a list"
			}
		}
	}
	return ""
}

// possible is a quick test whether a text may contain the value.
func (v *value) possible(s string) bool {
	switch {
	case v.number != nil:
		return strings.IndexByte(s, v.digit) >= 0
	case v.uuid != nil || v.moment != nil || v.address.IsValid():
		return true
	}
	return strings.Contains(s, v.text) || strings.IndexByte(s, '\\') >= 0 || strings.Contains(s, `""`)
}

// inJSON searches the leaves of JSON; ok says that the text is JSON.
func (v *value) inJSON(s string) (found, ok bool) {
	d := json.NewDecoder(strings.NewReader(s))
	d.UseNumber()
	for {
		token, err := d.Token()
		if err != nil {
			return found, err.Error() == "EOF" && !d.More()
		}
		switch t := token.(type) {
		case string:
			// JSON in JSON
			found = found || v.equals(t) || len(t) > 2 && strings.IndexByte("{[\"", t[0]) >= 0 && v.findIn(t) != ""
		case json.Number:
			found = found || v.equals(t.String())
		}
	}
}

// inList searches the elements of an array or a row: {a,"b c",{d}} or (a,"b c").
func (v *value) inList(s string, depth int) bool {
	if depth > deepest || len(s) < 2 {
		return false
	}
	var b []byte
	quoted := false
	end := func() bool {
		element := strings.TrimSpace(string(b))
		b = b[:0]
		return v.equals(element) || len(element) > 2 && (element[0] == '{' || element[0] == '(') &&
			v.inList(element, depth+1)
	}
	level := 0
	for i := 1; i < len(s)-1; i++ {
		c := s[i]
		switch {
		case c == '\\' && i+1 < len(s)-1:
			i++
			b = append(b, s[i])
		case c == '"':
			if quoted && i+1 < len(s)-1 && s[i+1] == '"' {
				b = append(b, '"')
				i++
			} else if level == 0 {
				quoted = !quoted
			} else {
				quoted = !quoted
				b = append(b, c)
			}
		case !quoted && (c == '{' || c == '('):
			level++
			b = append(b, c)
		case !quoted && (c == '}' || c == ')'):
			level--
			b = append(b, c)
		case !quoted && level == 0 && c == ',':
			if end() {
				return true
			}
		default:
			b = append(b, c)
		}
	}
	return end()
}

// ---- parameters ----

// findInParam returns where a parameter has the value. Most are excluded without being converted to text.
func (v *value) findInParam(p format.ParamType, raw []byte, buf *[]byte) string {
	le := binary.LittleEndian
	var n int64
	switch {
	case p.Repr == format.ReprInt4 && len(raw) == 4:
		n = int64(int32(le.Uint32(raw)))
	case p.Repr == format.ReprInt8 && len(raw) == 8:
		n = int64(le.Uint64(raw))
	case p.Repr == format.ReprInt2 && len(raw) == 2:
		n = int64(int16(le.Uint16(raw)))
	case p.Repr == format.ReprOID && len(raw) == 4:
		n = int64(le.Uint32(raw))
	case p.Repr == format.ReprUUID:
		if v.uuid != nil && bytes.Equal(raw, v.uuid) {
			return "value"
		}
		return ""
	case p.Repr == format.ReprNone:
		return ""
	case p.Repr == format.ReprText:
		return v.findIn(string(raw))
	default:
		*buf = format.AppendParam((*buf)[:0], p.Repr, raw)
		return v.findIn(string(*buf))
	}
	if v.isInt && n == v.integer {
		return "value"
	}
	return ""
}

// ---- literals ----

// inText returns where the literals of an SQL text have the value. Comments and names are skipped.
func (v *value) inText(text []byte) string { return v.inBody(text, 0) }

// inBody is inText for a text inside depth levels of strings.
func (v *value) inBody(text []byte, depth int) string {
	if !v.mayBeLiteral(text) {
		return ""
	}
	s := script{text: string(text)}
	part := "" // returned if no better place is found
	has := func(body string) string {
		where := v.findIn(body)
		if where == inPart {
			part = where
			return ""
		}
		return where
	}
	for s.pos < len(s.text) {
		rest := s.text[s.pos:]
		switch c := rest[0]; {
		case c <= ' ':
			s.pos++
		case strings.HasPrefix(rest, "--"):
			s.skipLine()
		case strings.HasPrefix(rest, "/*"):
			s.skipComment()
		case c >= '0' && c <= '9' || c == '.' && len(rest) > 1 && rest[1] >= '0' && rest[1] <= '9':
			n := numberLength(rest)
			s.pos += n
			if v.isLiteralNumber(rest[:n]) {
				return "literal"
			}
		case (c == 'b' || c == 'B' || c == 'x' || c == 'X' || c == 'n' || c == 'N') && len(rest) > 1 &&
			rest[1] == '\'':
			s.pos++ // the string follows
		case (c == 'u' || c == 'U') && strings.HasPrefix(rest[1:], "&'"):
			body, n := quotedBody(rest[2:], '\'', false)
			s.pos += n + 2
			body = s.continued(body)
			if has(unicodeEscapes(body)) != "" {
				return "literal"
			}
		case (c == 'e' || c == 'E') && len(rest) > 1 && rest[1] == '\'':
			n := escapedLength(rest[1:])
			s.pos += n + 1
			body := rest[2:max(2, n)]
			for s.continues() {
				rest = s.text[s.pos:]
				n = escapedLength(rest)
				s.pos += n
				body += rest[1:max(1, n-1)]
			}
			if has(cEscapes(body)) != "" {
				return "literal"
			}
		case c == '$' && len(rest) > 1 && rest[1] >= '0' && rest[1] <= '9':
			n := 1
			for n < len(rest) && rest[n] >= '0' && rest[n] <= '9' {
				n++
			}
			s.pos += n // a parameter
		default:
			if w := s.word(); w.isString {
				if c == '\'' {
					w.text = s.continued(w.text)
				}
				switch where := has(w.text); {
				case where == "value":
					return "literal"
				case where != "":
					return where
				}
				if c == '$' && depth < deepest { // the body of a DO block
					if where := v.inBody([]byte(w.text), depth+1); where != "" && where != inPart {
						return "literal"
					}
				}
			}
		}
	}
	return part
}

// continues reports whether a string is continued on another line, and moves to its quote there.
func (s *script) continues() bool {
	at, line := s.pos, false
	for s.pos < len(s.text) {
		switch rest := s.text[s.pos:]; {
		case rest[0] == '\n' || rest[0] == '\r':
			line = true
			s.pos++
		case rest[0] == ' ' || rest[0] == '\t' || rest[0] == '\f' || rest[0] == '\v':
			s.pos++
		case strings.HasPrefix(rest, "--"):
			s.skipLine()
			line = true
		case rest[0] == '\'' && line:
			return true
		default:
			s.pos = at
			return false
		}
	}
	s.pos = at
	return false
}

// continued adds the lines on which a string is continued.
func (s *script) continued(body string) string {
	for s.continues() {
		more, n := quotedBody(s.text[s.pos:], '\'', false)
		s.pos += n
		body += more
	}
	return body
}

// continuedString finds strings that are continued on another line.
var continuedString = regexp.MustCompile(`'\s*(--[^\n\r]*)?[\n\r]\s*(--|')`)

// otherBases finds numbers that are not decimal.
var otherBases = regexp.MustCompile(`0[xXoObB]`)

// mayBeLiteral is a quick test whether the literals of a text may have the value.
func (v *value) mayBeLiteral(text []byte) bool {
	switch {
	case len(text) == 0:
		return false
	case v.number != nil && v.digit != '0':
		return bytes.IndexByte(text, v.digit) >= 0 || otherBases.Match(text) || bytes.IndexByte(text, '\\') >= 0
	case v.number != nil || v.uuid != nil || v.moment != nil || v.address.IsValid():
		return true
	}
	return bytes.Contains(text, []byte(v.text)) || continuedString.Match(text) || bytes.IndexByte(text, '\\') >= 0 ||
		bytes.Contains(text, []byte("''")) || bytes.Contains(text, []byte(`""`))
}

// isLiteralNumber compares a number of a text without its sign, which in SQL is an operator before it.
func (v *value) isLiteralNumber(s string) bool {
	if v.number == nil {
		return s == v.text
	}
	var n *big.Rat
	if len(s) > 2 && s[0] == '0' && strings.IndexByte("xXoObB", s[1]) >= 0 {
		i, err := strconv.ParseUint(strings.ReplaceAll(strings.ToLower(s), "_", ""), 0, 63)
		if err != nil {
			return false
		}
		n = new(big.Rat).SetInt64(int64(i))
	} else if n = parseNumber(s); n == nil {
		return false
	}
	return n.Abs(n).Cmp(new(big.Rat).Abs(v.number)) == 0
}

// numberLength returns the length of the number at the beginning of s.
func numberLength(s string) int {
	i := 0
	for i < len(s) {
		c := s[i]
		sign := (c == '+' || c == '-') && i > 0 && (s[i-1] == 'e' || s[i-1] == 'E') && !strings.HasPrefix(s, "0x") &&
			!strings.HasPrefix(s, "0X")
		if !(isWordByte(c) || c == '.' || sign) {
			break
		}
		i++
	}
	return max(i, 1)
}

// skipComment skips a comment, which may contain nested ones.
func (s *script) skipComment() {
	depth := 0
	for s.pos < len(s.text) {
		switch rest := s.text[s.pos:]; {
		case strings.HasPrefix(rest, "/*"):
			depth++
			s.pos += 2
		case strings.HasPrefix(rest, "*/"):
			depth--
			s.pos += 2
			if depth == 0 {
				return
			}
		default:
			s.pos++
		}
	}
	s.noteUnlike("its comment is not closed")
}

// escapedLength returns the length of a string with backslash escapes, including its quotes.
func escapedLength(s string) int {
	for i := 1; i < len(s); i++ {
		switch {
		case s[i] == '\\':
			i++
		case s[i] == '\'' && i+1 < len(s) && s[i+1] == '\'':
			i++
		case s[i] == '\'':
			return i + 1
		}
	}
	return len(s)
}

// cEscapes resolves backslash escapes and doubled quotes of E'...'.
func cEscapes(s string) string {
	s = strings.ReplaceAll(s, "''", "'")
	var b []byte
	for i := 0; i < len(s); i++ {
		if s[i] != '\\' || i+1 == len(s) {
			b = append(b, s[i])
			continue
		}
		i++
		switch c := s[i]; {
		case strings.IndexByte("bfnrt", c) >= 0:
			b = append(b, "\b\f\n\r\t"[strings.IndexByte("bfnrt", c)])
		case c == 'x' || c >= '0' && c <= '7' || c == 'u' || c == 'U':
			base, from, most := 16, i+1, map[byte]int{'x': 2, 'u': 4, 'U': 8}[c]
			if most == 0 {
				base, from, most = 8, i, 3
			}
			end := from
			for end < len(s) && end-from < most &&
				strings.IndexByte("0123456789abcdefABCDEF"[:map[int]int{8: 8, 16: 22}[base]], s[end]) >= 0 {
				end++
			}
			n, err := strconv.ParseUint(s[from:end], base, 32)
			switch {
			case err != nil:
				b = append(b, c)
				continue
			case c == 'u' || c == 'U':
				b = append(b, string(rune(n))...)
			default:
				b = append(b, byte(n))
			}
			i = end - 1
		default:
			b = append(b, c)
		}
	}
	return string(b)
}

// unicodeEscapes resolves \0041 and \+000041 in U&'...'.
func unicodeEscapes(s string) string {
	var b []byte
	for i := 0; i < len(s); i++ {
		digits := 4
		from := i + 1
		if s[i] == '\\' && from < len(s) && s[from] == '+' {
			digits, from = 6, i+2
		}
		if s[i] == '\\' && from+digits <= len(s) {
			if n, err := strconv.ParseUint(s[from:from+digits], 16, 32); err == nil {
				b = append(b, string(rune(n))...)
				i = from + digits - 1
				continue
			}
		}
		if s[i] == '\\' && i+1 < len(s) && s[i+1] == '\\' {
			i++
		}
		b = append(b, s[i])
	}
	return string(b)
}

// forms describes in which forms a value is looked for.
func (v *value) forms() []string {
	forms := []string{"text"}
	for _, f := range []struct {
		is   bool
		name string
	}{{v.number != nil, "number"}, {v.uuid != nil, "uuid"}, {v.moment != nil, "date or time"},
		{v.address.IsValid(), "network address"}} {
		if f.is {
			forms = append(forms, f.name)
		}
	}
	return slices.Clip(forms)
}
