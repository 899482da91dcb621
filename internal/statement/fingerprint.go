// Package statement has definitions that several commands share: which statements differ only in constants, which are
// privileged, and which times are outside working hours.
//
// Fingerprints of texts are our own: libraries that compute them link PostgreSQL's parser, in C or as
// WebAssembly, and fail for texts that it cannot parse, which trails contain, too.
package statement

import (
	"bytes"
	"fmt"
	"strconv"

	"github.com/cespare/xxhash/v2"

	"github.com/pg-steno/pg_steno/internal/format"
)

// Fingerprint returns the number that statements which differ only in constants have in common: the
// query identifier if the server has computed one, otherwise TextFingerprint. Without either, there is none.
// scratch is memory for reuse.
func Fingerprint(r *format.Record, scratch *[]byte) (n uint64, ok bool) {
	switch {
	case r.Shape != nil && r.Shape.QueryID != 0:
		return r.Shape.QueryID, true
	case r.Text != nil:
		return TextFingerprint(r.Text, scratch), true
	}
	return 0, false
}

// ParseFingerprint reads a fingerprint as it is shown: 16 hexadecimal digits.
func ParseFingerprint(s string) (uint64, error) {
	n, err := strconv.ParseUint(s, 16, 64)
	if err != nil || len(s) != 16 {
		return 0, fmt.Errorf("%q is not a fingerprint: it has 16 hexadecimal digits", s)
	}
	return n, nil
}

// TextFingerprint returns a number that is the same for statements that differ only in constants, in the number
// of constants in a list, in comments, in white space, and in case outside of quotes. Strings are read
// as with standard_conforming_strings.
func TextFingerprint(text []byte, scratch *[]byte) uint64 {
	*scratch = appendPlain((*scratch)[:0], text)
	return xxhash.Sum64(*scratch)
}

// inWords maps the bytes of words to lower case, and other bytes to 0.
var inWords = func() (t [256]byte) {
	for c := range 256 {
		switch b := byte(c); {
		case b >= 'A' && b <= 'Z':
			t[c] = b + 'a' - 'A'
		case b == '_' || isDigit(b) || b >= 'a' && b <= 'z' || b >= 0x80:
			t[c] = b
		}
	}
	return t
}()

func isWord(c byte) bool { return inWords[c] != 0 }

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

// appendPlain appends the text with ? for each constant and one blank between words.
func appendPlain(dst, s []byte) []byte {
	blank := false
	constant := func() {
		// one ? stands for a list of any length
		if n := len(dst); n >= 2 && dst[n-1] == ',' && dst[n-2] == '?' {
			dst = dst[:n-1]
			return
		}
		if n := len(dst); blank && n > 0 && isWord(dst[n-1]) {
			dst = append(dst, ' ')
		}
		dst, blank = append(dst, '?'), false
	}
	for i := 0; i < len(s); {
		c := s[i]
		switch {
		case c == ' ' || c >= '\t' && c <= '\r':
			blank = true
			i++
		case c == '-' && i+1 < len(s) && s[i+1] == '-':
			if n := bytes.IndexAny(s[i:], "\r\n"); n >= 0 {
				i += n
			} else {
				i = len(s)
			}
			blank = true
		case c == '/' && i+1 < len(s) && s[i+1] == '*':
			i, blank = afterComment(s, i), true
		case c == '\'':
			escapes := false
			if n := len(dst); n > 0 && !blank && i > 0 { // a prefix: E'', B'', X'', N''
				if p := s[i-1]; bytes.IndexByte([]byte("eEbBxXnN"), p) >= 0 && (i < 2 || !isWord(s[i-2])) {
					escapes = p == 'e' || p == 'E'
					dst = dst[:n-1]
				}
			}
			i = afterQuote(s, i, escapes)
			constant()
		case c == '"':
			end := afterQuote(s, i, false)
			if n := len(dst); blank && n > 0 && isWord(dst[n-1]) {
				dst = append(dst, ' ')
			}
			dst, blank = append(dst, s[i:end]...), false
			i = end
		case c == '$' && !(i > 0 && isWord(s[i-1])):
			if end := afterDollars(s, i); end > 0 {
				i = end
				constant()
				continue
			}
			dst = append(dst, c)
			i++
		case isDigit(c) || c == '.' && i+1 < len(s) && isDigit(s[i+1]) && !(i > 0 && isWord(s[i-1])):
			if n := len(dst); n > 0 && dst[n-1] == '$' && isDigit(c) { // a parameter
				for ; i < len(s) && isDigit(s[i]); i++ {
					dst = append(dst, s[i])
				}
				continue
			}
			for i < len(s) && (isWord(s[i]) || s[i] == '.' ||
				(s[i] == '+' || s[i] == '-') && (s[i-1] == 'e' || s[i-1] == 'E')) {
				i++
			}
			constant()
		case isWord(c):
			if n := len(dst); blank && n > 0 && (isWord(dst[n-1]) || dst[n-1] == '"' || dst[n-1] == '?') {
				dst = append(dst, ' ')
			}
			blank = false
			for ; i < len(s); i++ {
				b := inWords[s[i]]
				if b == 0 {
					if s[i] != '$' {
						break
					}
					b = '$'
				}
				dst = append(dst, b)
			}
		default:
			dst, blank = append(dst, c), false
			i++
		}
	}
	return bytes.TrimRight(dst, ";")
}

// afterQuote returns the position after the quoted text that begins at i.
func afterQuote(s []byte, i int, escapes bool) int {
	quote, end := s[i], 0 // end is where the next quote is
	for i++; i < len(s); {
		if i > end || end == 0 {
			n := bytes.IndexByte(s[i:], quote)
			if n < 0 {
				n = len(s) - i
			}
			end = i + n
		}
		if escapes && i < end {
			if k := bytes.IndexByte(s[i:end], '\\'); k >= 0 {
				i += k + 2
				continue
			}
		}
		if i = end; i+1 < len(s) && s[i+1] == quote {
			i += 2
			continue
		}
		return min(i+1, len(s))
	}
	return len(s)
}

// afterComment returns the position after a comment, which may contain nested ones.
func afterComment(s []byte, i int) int {
	depth := 1
	for i += len("/*"); i < len(s); {
		n := bytes.IndexByte(s[i:], '*') // each beginning and each end of a comment has one
		if n < 0 {
			break
		}
		switch at := i + n; {
		case n > 0 && s[at-1] == '/': // unless the slash ends a nested comment
			depth++
			i = at + 1
		case at+1 < len(s) && s[at+1] == '/':
			if depth--; depth == 0 {
				return at + 2
			}
			i = at + 2
		default:
			i = at + 1
		}
	}
	return len(s)
}

// afterDollars returns the position after a dollar-quoted string that begins at i; 0 if none does.
func afterDollars(s []byte, i int) int {
	end := i + 1
	for end < len(s) && isWord(s[end]) && !(end == i+1 && isDigit(s[end])) {
		end++
	}
	if end >= len(s) || s[end] != '$' {
		return 0
	}
	tag := s[i : end+1]
	n := bytes.Index(s[end+1:], tag)
	if n < 0 {
		return len(s)
	}
	return end + 1 + n + len(tag)
}
