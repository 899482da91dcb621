package render

import (
	"bytes"
	"unicode"
	"unicode/utf8"
)

// Names and values in the text format are quoted when they are not one plain word, so
// that a client that chooses them can make them look like nothing else. What is quoted
// ends at the next quote that is not doubled.

// plainWord says whether a value is one word without anything that has a meaning in a
// line: blanks, quotes, brackets, bars, equals signs, commas, nor one of more.
func plainWord(s []byte, more string) bool {
	for i := 0; i < len(s); {
		r, n := utf8.DecodeRune(s[i:])
		i += n
		switch {
		case r == utf8.RuneError && n == 1, !unicode.IsPrint(r), r == ' ':
			return false
		case r == '"', r == '\'', r == '\\', r == '[', r == ']', r == '(', r == ')', r == '|', r == '=', r == ',':
			return false
		case bytes.ContainsRune([]byte(more), r):
			return false
		}
	}
	return len(s) > 0
}

// appendName appends the name of a user or a database, in double quotes when it is not
// plain, as SQL would. A lone - stands for a user that is not known, and @ before a
// database.
func appendName(dst, name []byte) []byte {
	if plainWord(name, "@") && string(name) != "-" {
		return append(dst, name...)
	}
	return appendInQuotes(dst, name, '"')
}

// appendValue appends a value, as a string of SQL when it is not plain.
func appendValue[S string | []byte](dst []byte, value S) []byte {
	if plainWord([]byte(value), "") {
		return append(dst, value...)
	}
	return appendQuoted(dst, []byte(value))
}

// appendWord appends what is one word, though it may have brackets, as addresses have.
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

// appendBetweenBars appends what stands between the bars of a line, " | ": a bar of its
// own that could be taken for one of them is shown as \x7c.
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
