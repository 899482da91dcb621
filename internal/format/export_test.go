package format

import (
	"strings"
	"unicode/utf8"
)

// MaxVariants is how many bytes the texts have together that a block defines as variants.
const MaxVariants = maxVariants

// InRun says whether records are left of the item that the last record was read from.
func (b *Block) InRun() bool { return b.runLeft > 0 }

// Unshown is the opposite for one who has what was shown, and the encoding: the bytes
// that were recorded.
func Unshown(text, name string) ([]byte, bool) {
	c := charsetOf([]byte(name))
	var out []byte
	for len(text) > 0 {
		if rest, ok := strings.CutPrefix(text, replacement); ok {
			if c == nil && strings.HasPrefix(rest, replacement) {
				out, text = append(out, replacement...), rest[len(replacement):]
				continue
			}
			if len(rest) < 2 || unhex(rest[0]) > 15 || unhex(rest[1]) > 15 {
				return nil, false
			}
			out, text = append(out, unhex(rest[0])<<4|unhex(rest[1])), rest[2:]
			continue
		}
		_, n := utf8.DecodeRuneInString(text)
		if c == nil || text[0] < utf8.RuneSelf {
			out = append(out, text[:n]...)
		} else if code, ok := c.code(text[:n]); ok {
			out = append(out, code...)
		} else {
			return nil, false
		}
		text = text[n:]
	}
	return out, true
}

// code is the only code of a character.
func (c *charset) code(char string) (code string, ok bool) {
	for b, s := range c.chars {
		if s != char {
			continue
		}
		if ok {
			return "", false
		}
		code, ok = b, true
	}
	return code, ok
}

func unhex(c byte) byte {
	switch {
	case c >= '0' && c <= '9':
		return c - '0'
	case c >= 'a' && c <= 'f':
		return c - 'a' + 10
	}
	return 255
}

// List returns a list of an index: the groups of each term, or the filter of each group, and
// whether nothing was omitted.
func (c *Contents) List(list Terms) (terms map[string][]int, filter func(group int) []byte, all bool) {
	if list == TermsTrigrams {
		return nil, func(i int) []byte { return c.trigrams.filters[i*c.trigrams.size:][:c.trigrams.size] }, c.trigrams.omitted.Empty()
	}
	l := c.lists[list]
	terms = map[string][]int{}
	for _, t := range l.terms {
		for i := range c.Len() {
			if t.groups.Has(i) {
				terms[string(t.value)] = append(terms[string(t.value)], i)
			}
		}
	}
	return terms, nil, l.omitted.Empty()
}

// FixedSizes are the representations of a fixed size whose characters are known.
func FixedSizes() map[Repr]int {
	sizes := map[Repr]int{}
	for repr := range alphabets {
		if n := fixedSize[repr]; n >= 0 {
			sizes[repr] = int(n)
		}
	}
	return sizes
}

// MayContain says whether values of a representation may contain a string.
func MayContain(repr Repr, s string) bool {
	c := &Contents{First: 1, Blocks: 1, Group: 1, lists: [len(namesTerms)]termList{TermsValues: {Groups{0}, []term{{[]byte{byte(repr)}, Groups{1}}}}}}
	return c.SelectValue(s).Has(0)
}

// Plain says whether all strings of a definition are ASCII.
func (s *Session) Plain() bool { return s.ascii }

// Plain says whether all strings of a definition are ASCII.
func (s *Shape) Plain() bool { return s.ascii }

func (r *Record) MayUse() bool { return r.mayUseUnnamed() }
