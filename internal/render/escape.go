// Text that clients choose, made safe for JSON, for terminals, and for lines that consist of words.

package render

import (
	"bytes"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

const hexDigits = "0123456789abcdef"

// isPlain marks the bytes that need no escape in JSON and on a terminal.
var isPlain = func() (t [256]bool) {
	for c := ' '; c < 0x7f; c++ {
		t[c] = c != '"' && c != '\\'
	}
	return t
}()

// appendJSON appends a JSON string. Control characters, C1 and DEL among them,
// and characters that are not seen (unsafeRune) are escaped, and bytes that
// are not UTF-8 become U+FFFD, so that a line is always valid JSON and safe to
// print.
func appendJSON[S string | []byte](dst []byte, s S) []byte {
	return append(appendJSONBody(append(dst, '"'), s), '"')
}

func appendJSONBody[S string | []byte](dst []byte, s S) []byte {
	from := 0
	for i := 0; i < len(s); {
		c := s[i]
		if isPlain[c] {
			i++
			continue
		}
		if c < utf8.RuneSelf {
			dst = append(dst, s[from:i]...)
			switch c {
			case '"', '\\':
				dst = append(dst, '\\', c)
			case '\n':
				dst = append(dst, '\\', 'n')
			case '\r':
				dst = append(dst, '\\', 'r')
			case '\t':
				dst = append(dst, '\\', 't')
			default:
				dst = append(dst, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
			}
			i++
			from = i
			continue
		}
		r, n := decodeRune(s[i:])
		switch {
		case r == utf8.RuneError && n == 1:
			dst = append(append(dst, s[from:i]...), `\ufffd`...)
			from = i + n
		case unsafeRune(r):
			dst = appendRune(append(dst, s[from:i]...), r)
			from = i + n
		}
		i += n
	}
	return append(dst, s[from:]...)
}

func decodeRune[S string | []byte](s S) (rune, int) {
	// A rune has at most four bytes. The copy stays on the stack, where converting all of s would allocate.
	var b [utf8.UTFMax]byte
	return utf8.DecodeRune(b[:copy(b[:], s)])
}

// unsafeRune returns whether a character above ASCII must be escaped, because people would not see it, or would
// take it for a blank, or because a terminal would interpret it. These are, by Unicode's categories, controls,
// formats, separators, surrogates, private and unassigned characters; by its properties, those that programs
// may ignore; and the blank pattern of Braille. No other function decides this.
func unsafeRune(r rune) bool {
	return !unicode.IsPrint(r) || r == 0x2800 ||
		unicode.In(r, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector)
}

// appendRune appends the escape of a character above ASCII: \uHHHH, and one beyond that in two
// halves, as in JSON.
func appendRune(dst []byte, r rune) []byte {
	if high, low := utf16.EncodeRune(r); high != unicode.ReplacementChar {
		return appendRune(appendRune(dst, high), low)
	}
	return append(dst, '\\', 'u', hexDigits[r>>12&15], hexDigits[r>>8&15], hexDigits[r>>4&15], hexDigits[r&15])
}

// appendSafe appends text so that it stays on one line and cannot control a terminal: \n, \t, \xHH for other
// controls and for bytes that are not UTF-8, \uHHHH for other unsafe characters. Backslashes are not escaped,
// because SQL has many.
func appendSafe[S string | []byte](dst []byte, s S) []byte {
	from := 0
	for i := 0; i < len(s); {
		c := s[i]
		if c >= ' ' && c < 0x7f {
			i++
			continue
		}
		if c < utf8.RuneSelf {
			dst = append(dst, s[from:i]...)
			switch c {
			case '\n':
				dst = append(dst, '\\', 'n')
			case '\r':
				dst = append(dst, '\\', 'r')
			case '\t':
				dst = append(dst, '\\', 't')
			default:
				dst = append(dst, '\\', 'x', hexDigits[c>>4], hexDigits[c&15])
			}
			i++
			from = i
			continue
		}
		r, n := decodeRune(s[i:])
		switch {
		case r == utf8.RuneError && n == 1:
			dst = append(append(dst, s[from:i]...), '\\', 'x', hexDigits[c>>4], hexDigits[c&15])
			from = i + n
		case unsafeRune(r):
			dst = appendRune(append(dst, s[from:i]...), r)
			from = i + n
		}
		i += n
	}
	return append(dst, s[from:]...)
}

// Safe is text as it may be printed on a terminal.
func Safe(s string) string { return string(appendSafe(nil, s)) }

// Names and values in the text format are quoted unless they are one plain word, so that a client that chooses
// them cannot imitate other parts of a line. A quoted value ends at the next quote that is not doubled. In names
// whose words mix scripts, all characters other than ASCII are escaped.

// plainWord returns whether a value is one word without characters that have a meaning in a line: blanks,
// quotes, brackets, bars, equals signs, commas, and those in more.
func plainWord(s []byte, more string) bool {
	mixed := false
	for i := 0; i < len(s); {
		if c := s[i]; c < utf8.RuneSelf {
			if c <= ' ' || c == 0x7f || strings.IndexByte(`"'\[]()|=,`, c) >= 0 || strings.IndexByte(more, c) >= 0 {
				return false
			}
			i++
			continue
		}
		r, n := utf8.DecodeRune(s[i:])
		if r == utf8.RuneError && n == 1 || unsafeRune(r) {
			return false
		}
		mixed = true // perhaps
		i += n
	}
	return len(s) > 0 && !(mixed && mixesScripts(s))
}

// appendName appends the name of a user or a database, in double quotes when it is not
// plain, as SQL would. A lone - stands for a user that is not known, and @ before a
// database.
func appendName(dst, name []byte) []byte {
	if plainWord(name, "@") && string(name) != "-" {
		return append(dst, name...)
	}
	return appendInQuotes(dst, escapeMixed(name), '"')
}

// appendValue appends a value, as a string of SQL when it is not plain.
func appendValue[S string | []byte](dst []byte, value S) []byte {
	if plainWord([]byte(value), "") {
		return append(dst, value...)
	}
	return appendQuoted(dst, escapeMixed([]byte(value)))
}

// appendWord appends a value that needs no quotes unless it has a blank. It may have brackets, as addresses
// have.
func appendWord(dst, word []byte) []byte {
	if bytes.IndexByte(word, ' ') < 0 {
		return appendSafe(dst, word)
	}
	return appendQuoted(dst, word)
}

// appendQuoted appends a value as a string of SQL.
func appendQuoted(dst, value []byte) []byte { return appendInQuotes(dst, value, '\'') }

func appendInQuotes(dst, value []byte, quote byte) []byte {
	dst = append(dst, quote)
	for {
		before, after, found := bytes.Cut(value, []byte{quote})
		dst = appendBetweenBars(dst, before)
		if !found {
			return append(dst, quote)
		}
		dst, value = append(dst, quote, quote), after
	}
}

// appendBetweenBars appends text that stands between the bars of a line, " | ". A bar in the text that could be
// taken for one of these is written as \x7c.
func appendBetweenBars(dst, s []byte) []byte {
	from := 0
	for i := 0; ; i++ {
		n := bytes.IndexByte(s[i:], '|')
		if n < 0 {
			return appendSafe(dst, s[from:])
		}
		i += n
		if (i == 0 || s[i-1] == ' ') && (i == len(s)-1 || s[i+1] == ' ') {
			dst = append(appendSafe(dst, s[from:i]), `\x7c`...)
			from = i + 1
		}
	}
}

// Name is a name as the text format shows it, quoted when it is not one plain word.
func Name(s string) string { return string(appendName(nil, []byte(s))) }

// Quoted is a name or value in double quotes, as messages show it.
func Quoted(s string) string { return string(appendInQuotes(nil, escapeMixed([]byte(s)), '"')) }

// AppendJSON appends a JSON string that is safe to print on a terminal.
func AppendJSON(dst, s []byte) []byte { return appendJSON(dst, s) }

// AppendSafe appends text as it may be printed on a terminal, on one line.
func AppendSafe(dst, s []byte) []byte { return appendSafe(dst, s) }
