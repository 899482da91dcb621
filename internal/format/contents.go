// Indexes that the server writes into segments: which blocks contain what.

package format

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/bits"
	"slices"
	"strings"
	"sync"
)

// Contents is an index: which terms of some lists occur in which of the segment's blocks. An index may be
// incomplete, but never hides anything: groups of blocks for which it omits terms are selected by every
// question.
type Contents struct {
	// First is the number of the first block that the index covers, Blocks the number of blocks, and Group how
	// many successive blocks form a group, for which terms are listed together.
	First, Blocks, Group uint64

	lists    [len(namesTerms)]termList
	trigrams *trigramList // nil: none
	// ambiguous says that terms with other characters than ASCII may be decoded in several ways, because not
	// all databases are in UTF-8.
	ambiguous bool

	byValueOnce sync.Once // guards byValue, which is built at first use
	byValue     [len(namesTerms)]map[string]Groups
}

// Groups is a set of an index's groups of blocks.
type Groups []byte

// Has says whether a group is in the set.
func (g Groups) Has(i int) bool { return g[i/8]>>(i%8)&1 != 0 }

// And removes the groups that are not in the other set.
func (g Groups) And(o Groups) {
	for i := range g {
		g[i] &= o[i]
	}
}

// Or adds the groups of the other set.
func (g Groups) Or(o Groups) {
	for i := range g {
		g[i] |= o[i]
	}
}

// Empty returns whether the set has no groups.
func (g Groups) Empty() bool { return !slices.ContainsFunc(g, func(b byte) bool { return b != 0 }) }

type termList struct {
	omitted Groups // groups that may have further terms; nil: the index has no such list
	terms   []term
}

type term struct {
	value  []byte
	groups Groups
}

type trigramList struct {
	omitted Groups
	size    int // bytes of the filter of one group
	filters []byte
}

const (
	// maxGroups bounds the groups of an index, and so the size of a set.
	maxGroups = 1024
	// maxTerms bounds the terms of a list.
	maxTerms = 64 << 10
	// MaxIndex is the longest payload of a block that consists of an index.
	MaxIndex = 2<<20 + 16
	// trigramBits is the number of bits in a filter for trigrams, in this version of the format.
	trigramBits = 4096
)

// ParseContents reads the body of an index.
func ParseContents(body []byte) (*Contents, error) {
	cur := cursor{b: body}
	c := &Contents{First: cur.varint(), Blocks: cur.varint(), Group: cur.varint()}
	switch {
	case cur.bad:
		return nil, problemf(ProblemIndex, 0, "index %s", cutShort)
	case c.First == 0 || c.Blocks == 0 || c.First+c.Blocks < c.First:
		return nil, problemf(ProblemIndex, 0, "index covers no blocks")
	case bits.OnesCount64(c.Group) != 1 || (c.Blocks-1)/c.Group >= maxGroups:
		return nil, problemf(ProblemIndex, 0, "index has an invalid number of groups")
	}
	for cur.left() > 0 {
		list, content := Terms(cur.varint()), cursor{b: cur.str()}
		if cur.bad {
			return nil, problemf(ProblemIndex, 0, "index %s", cutShort)
		}
		var ok bool
		if list == TermsTrigrams {
			ok = c.readTrigrams(&content)
		} else {
			ok = c.readTerms(list, &content)
		}
		if !ok {
			return nil, problemf(ProblemIndex, 0, "index: list %d %s", list, cutShort)
		}
	}
	e := c.lists[TermsEncodings]
	c.ambiguous = e.omitted == nil || len(e.terms) > 0 || !e.omitted.Empty()
	return c, nil
}

func (c *Contents) readTerms(list Terms, cur *cursor) bool {
	if list >= Terms(len(namesTerms)) || namesTerms[list] == "" {
		return true // a list of a later version
	}
	size := uint64(len(c.noGroups()))
	l := termList{omitted: cur.bytes(size)}
	n := cur.varint()
	if n > uint64(cur.left())/(1+size) || n > maxTerms {
		return false
	}
	l.terms = make([]term, n)
	for i := range l.terms {
		l.terms[i] = term{cur.str(), cur.bytes(size)}
	}
	c.lists[list] = l
	return !cur.bad
}

func (c *Contents) readTrigrams(cur *cursor) bool {
	t := &trigramList{omitted: cur.bytes(uint64(len(c.noGroups())))}
	size := cur.varint()
	if size > uint64(cur.left()) || size*8 != trigramBits {
		return !cur.bad // filters of a later version
	}
	t.size = int(size)
	t.filters = cur.bytes(size * uint64(c.Len()))
	c.trigrams = t
	return !cur.bad
}

// Len returns the number of groups.
func (c *Contents) Len() int { return int((c.Blocks-1)/c.Group + 1) }

// GroupOf returns the group of a block.
func (c *Contents) GroupOf(block uint64) (i int, ok bool) {
	if block < c.First || block-c.First >= c.Blocks {
		return 0, false
	}
	return int((block - c.First) / c.Group), true
}

func (c *Contents) noGroups() Groups { return make(Groups, (c.Len()+7)/8) }

// All returns the set of all groups.
func (c *Contents) All() Groups { return Groups(bytes.Repeat([]byte{0xff}, (c.Len()+7)/8)) }

// Select returns the groups that may contain a term that matches. Names are matched as they are shown. It is
// for lists whose terms are single names or numbers; for the others, use SelectShape.
func (c *Contents) Select(list Terms, match func(value []byte) bool) Groups {
	return c.selectTerms(list, func(value []byte, shown func([]byte) []byte) bool { return match(shown(value)) })
}

// selectTerms does the same for terms that have several parts; shown converts a name in a term to what is
// shown.
func (c *Contents) selectTerms(list Terms, match func(value []byte, shown func([]byte) []byte) bool) Groups {
	if list >= Terms(len(c.lists)) || c.lists[list].omitted == nil {
		return c.All()
	}
	l := &c.lists[list]
	out := slices.Clone(l.omitted)
	for i := range l.terms {
		t := &l.terms[i]
		unsure := false // the name may be shown differently
		if match(t.value, func(name []byte) []byte {
			unsure = unsure || c.ambiguous && !isASCII(name)
			return (*charset)(nil).decode(name)
		}) || unsure {
			out.Or(t.groups)
		}
	}
	return out
}

// SelectOmissions returns the groups that may have records that leave out something, such as relations. Indexes
// of earlier versions do not list these, and then it returns none: see HasOmissions.
func (c *Contents) SelectOmissions(what ...string) Groups {
	if !c.HasOmissions() {
		return c.noGroups()
	}
	return c.Select(TermsOmissions, func(v []byte) bool { return slices.Contains(what, string(v)) })
}

// HasOmissions returns whether the index lists which blocks have records that leave out something.
func (c *Contents) HasOmissions() bool { return c.lists[TermsOmissions].omitted != nil }

// SelectResult returns the groups that may have a record whose kind and outcome match. The index does not list
// successful statements.
func (c *Contents) SelectResult(match func(Kind, Outcome) bool) Groups {
	return c.Select(TermsResults, func(v []byte) bool { return len(v) != 2 || match(Kind(v[0]), Outcome(v[1])) })
}

// SelectShape returns the groups that may have a shape with relations, columns or objects that match. Each
// shape passed to match has only one of these.
func (c *Contents) SelectShape(match func(*Shape) bool) Groups {
	access := func(v []byte) (Access, cursor) {
		cur := cursor{b: v}
		return Access(cur.varint()), cur
	}
	out := c.selectTerms(TermsRelations, func(v []byte, shown func([]byte) []byte) bool {
		a, cur := access(v)
		// columns have terms of their own
		return match(&Shape{Relations: []Relation{{Access: a, Name: shown(cur.rest()), HasColumns: true}}})
	})
	out.Or(c.selectTerms(TermsColumns, func(v []byte, shown func([]byte) []byte) bool {
		a, cur := access(v)
		r := Relation{Name: shown(cur.str()), HasColumns: true}
		if column := shown(cur.rest()); len(column) > 0 {
			r.Columns = []Column{{a, column}}
		} else {
			r.Omitted = a
		}
		return match(&Shape{Relations: []Relation{r}})
	}))
	out.Or(c.selectTerms(TermsObjects, func(v []byte, shown func([]byte) []byte) bool {
		if len(v) == 0 {
			return true
		}
		return match(&Shape{Objects: []Object{{Action: Action(v[0]), Name: shown(v[1:])}}})
	}))
	return out
}

// SelectText returns the groups that may have a text or message that contains a string of printable ASCII,
// ignoring case.
func (c *Contents) SelectText(s string) Groups {
	if c.trigrams == nil {
		return c.All()
	}
	var wanted []uint32
	for i := range len(s) - 2 {
		// Bytes that cannot be decoded are shown as two hexadecimal digits, which the text itself does not
		// have. The string may begin with these.
		if i == 0 && isHexDigit(s[0]) || i == 1 && isHexDigit(s[0]) && isHexDigit(s[1]) {
			continue
		}
		if bit, ok := trigramBit([]byte(s[i : i+3])); ok {
			wanted = append(wanted, bit)
		}
	}
	out := slices.Clone(c.trigrams.omitted)
	for i := range c.Len() {
		filter := c.trigrams.filters[i*c.trigrams.size:][:c.trigrams.size]
		if !slices.ContainsFunc(wanted, func(bit uint32) bool { return filter[bit/8]>>(bit%8)&1 == 0 }) {
			out[i/8] |= 1 << (i % 8)
		}
	}
	return out
}

func isHexDigit(c byte) bool { return strings.IndexByte("0123456789abcdefABCDEF", c) >= 0 }

// trigramBit returns the bit of a filter that stands for three bytes.
func trigramBit(b []byte) (bit uint32, ok bool) {
	v := uint32(0)
	for _, c := range b {
		if foldedASCII[c] == 0 {
			return 0, false
		}
		v = v<<8 | uint32(foldedASCII[c])
	}
	return hashTrigram(v), true
}

func hashTrigram(v uint32) uint32 { return v * 0x9e3779b1 >> 20 }

// alphabets has the characters that values of a representation can consist of. Nothing is known of other
// representations.
var alphabets = map[Repr]string{
	ReprNone:        NotRecorded,
	ReprBool:        "tf",
	ReprInt2:        "-0123456789",
	ReprInt4:        "-0123456789",
	ReprInt8:        "-0123456789",
	ReprOID:         "0123456789",
	ReprFloat4:      "+-.0123456789eInfinityNa",
	ReprFloat8:      "+-.0123456789eInfinityNa",
	ReprUUID:        "-0123456789abcdef",
	ReprDate:        "-0123456789 BCinfinity",
	ReprTimestamp:   ":.+- 0123456789BCinfinity",
	ReprTimestamptz: ":.+- 0123456789BCinfinity",
}

// SelectValue returns the groups that may have a parameter whose shown value contains a string, ignoring case.
func (c *Contents) SelectValue(s string) Groups {
	lower := strings.ToLower(s)
	return c.Select(TermsValues, func(v []byte) bool {
		if len(v) != 1 {
			return true
		}
		alphabet, ok := alphabets[Repr(v[0])]
		return !ok || !strings.ContainsFunc(lower, func(r rune) bool {
			return !strings.ContainsRune(strings.ToLower(alphabet), r)
		})
	})
}

// Contents reads the index of a block that consists of one; nil: it does not.
func (b *Block) Contents() (*Contents, error) {
	n, w := readVarint(b.raw, 0)
	if n == 0 || w > len(b.raw) || n > uint64(len(b.raw)-w) || Kind(b.raw[w]) != KindDefIndex {
		return nil, nil
	}
	c, err := ParseContents(bytes.Clone(b.raw[w+1 : w+int(n)]))
	if err != nil {
		return nil, b.located(problemf(ProblemIndex, 0, "block %d: %s", b.Header.Number, err.(*Problem).Reason))
	}
	if c.First+c.Blocks > b.Header.Number {
		return nil, b.Problem(ProblemIndex, 0, "block %d: index covers blocks that follow it", b.Header.Number)
	}
	if c.First < b.FirstBlock {
		return nil, b.Problem(ProblemIndex, 0, "block %d: index covers blocks of an earlier segment",
			b.Header.Number)
	}
	return c, nil
}

// BlockContents collects from a block's records what an index must say about it: to check indexes, and for
// segments without one.
type BlockContents struct {
	Terms    map[Terms]map[string]bool
	Trigrams [trigramBits / 8]byte
	// Omitted says that the trigrams are incomplete, because texts are in data parts.
	Omitted bool
	// Further says that relations and objects are incomplete, because some are in data parts.
	Further bool
	// NoTexts says that trigrams are not needed.
	NoTexts bool
	// Known returns whether a term need not be collected; nil: all are.
	Known func(list Terms, value []byte) bool

	resultTerm [2]byte     // buffer for a term
	seen       [64][8]bool // kinds and outcomes that were added
}

func (c *BlockContents) add(list Terms, value []byte) {
	if c.Known != nil && c.Known(list, value) {
		return
	}
	if c.Terms == nil {
		c.Terms = map[Terms]map[string]bool{}
	}
	if c.Terms[list] == nil {
		c.Terms[list] = map[string]bool{}
	}
	c.Terms[list][string(value)] = true
}

func (c *BlockContents) addText(s []byte) {
	if c.NoTexts {
		return
	}
	v, length := uint32(0), 0
	for _, char := range s {
		folded := foldedASCII[char]
		if folded == 0 {
			length = 0
			continue
		}
		v = (v<<8 | uint32(folded)) & 0xffffff
		if length++; length >= 3 {
			bit := hashTrigram(v)
			c.Trigrams[bit/8] |= 1 << (bit % 8)
		}
	}
}

// foldedASCII maps printable ASCII to lower case, and other bytes to 0.
var foldedASCII = func() (t [256]byte) {
	for c := byte(' '); c < 0x7f; c++ {
		t[c] = c
		if c >= 'A' && c <= 'Z' {
			t[c] += 'a' - 'A'
		}
	}
	return t
}()

// AddRecord adds a record of the block.
func (c *BlockContents) AddRecord(r *Record) {
	if r.Kind == KindData {
		return
	}
	if r.Kind != KindStatement || r.Outcome != OutcomeOk {
		kind, outcome := int(r.Kind), int(r.Outcome)
		if known := kind < len(c.seen) && outcome < len(c.seen[0]); !known || !c.seen[kind][outcome] {
			c.resultTerm = [2]byte{byte(r.Kind), byte(r.Outcome)}
			c.add(TermsResults, c.resultTerm[:])
			if known {
				c.seen[kind][outcome] = true
			}
		}
	}
	if r.Has(FieldError) {
		c.add(TermsSqlstates, r.SQLState)
		c.addText(r.Message)
	}
	c.Omitted = c.Omitted || r.Has(FieldParts)
	c.Further = c.Further || r.HasFurther()
	for what := range r.Omissions {
		c.add(TermsOmissions, what)
	}
}

// AddDefinitions adds the block's definitions, after all its records were read.
func (c *BlockContents) AddDefinitions(b *Block) {
	facts := []struct {
		key  Key
		list Terms
	}{
		{KeyUser, TermsUsers}, {KeyDatabase, TermsDatabases}, {KeyRole, TermsRoles},
		{KeyApplication, TermsApplications}, {KeyAppUser, TermsAppUsers}, {KeyEncoding, TermsEncodings},
	}
	for i := range b.sessions {
		for _, f := range facts {
			if value := b.sessions[i].Fact(f.key); len(value) > 0 {
				c.add(f.list, value)
			}
		}
	}
	var buf []byte
	for i := range b.shapes {
		s := &b.shapes[i]
		c.add(TermsClasses, binary.AppendUvarint(buf[:0], uint64(s.Class)))
		c.add(TermsCommands, s.Command)
		for k := range s.Relations {
			r := &s.Relations[k]
			c.add(TermsRelations, append(binary.AppendUvarint(buf[:0], uint64(r.Access)), r.Name...))
			addColumn := func(access Access, name []byte) {
				buf = binary.AppendUvarint(buf[:0], uint64(access))
				buf = append(binary.AppendUvarint(buf, uint64(len(r.Name))), r.Name...)
				c.add(TermsColumns, append(buf, name...))
			}
			for _, column := range r.Columns {
				addColumn(column.Access, column.Name)
			}
			omitted := r.Omitted
			if !r.HasColumns {
				omitted = r.Access & (AccessSelect | AccessInsert | AccessUpdate)
			}
			if omitted != 0 {
				addColumn(omitted, nil)
			}
		}
		for _, p := range s.Params {
			c.add(TermsValues, []byte{byte(p.Repr)})
		}
		for k := range s.Objects {
			o := &s.Objects[k]
			c.add(TermsObjects, append([]byte{byte(o.Action)}, o.Name...))
			if len(o.To) > 0 {
				c.add(TermsObjects, append([]byte{byte(o.Action)}, o.To...))
			}
		}
	}
	for _, text := range b.texts {
		c.addText(text)
	}
}

// find returns the groups that contain a term; nil: none do.
func (c *Contents) find(list Terms, value []byte) Groups {
	c.byValueOnce.Do(func() {
		for list, l := range c.lists {
			c.byValue[list] = make(map[string]Groups, len(l.terms))
			for _, t := range l.terms {
				c.byValue[list][string(t.value)] = t.groups
			}
		}
	})
	return c.byValue[list][string(value)]
}

// HasTexts returns whether the index has the trigrams of a block's texts.
func (c *Contents) HasTexts(block uint64) bool {
	group, ok := c.GroupOf(block)
	return ok && c.trigrams != nil && !c.trigrams.omitted.Has(group)
}

// Has returns whether the index lists a term for a block, or may omit it.
func (c *Contents) Has(block uint64, list Terms, value []byte) bool {
	group, ok := c.GroupOf(block)
	if !ok {
		return true
	}
	l := &c.lists[list]
	if l.omitted == nil || l.omitted.Has(group) {
		return true
	}
	g := c.find(list, value)
	return g != nil && g.Has(group)
}

// HiddenReason returns, in words, what of a block the index hides; empty: nothing. Several goroutines may call it.
func (c *Contents) HiddenReason(block uint64, has *BlockContents) string {
	group, ok := c.GroupOf(block)
	if !ok {
		return ""
	}
	for list := range Terms(len(c.lists)) { // in this order, so that the message is always the same
		l := &c.lists[list]
		if l.omitted == nil || l.omitted.Has(group) {
			continue
		}
		missing := 0
		for value := range has.Terms[list] {
			if g := c.find(list, []byte(value)); g == nil || !g.Has(group) {
				missing++
			}
		}
		if missing > 0 {
			return fmt.Sprintf("%d of its %s", missing, list)
		}
		if has.Further && (list == TermsRelations || list == TermsColumns || list == TermsObjects) {
			return fmt.Sprintf("%s in its data parts", list)
		}
	}
	t := c.trigrams
	if t == nil || t.omitted.Has(group) {
		return ""
	}
	for i, b := range t.filters[group*t.size:][:t.size] {
		if has.Trigrams[i]&^b != 0 {
			return "parts of its texts"
		}
	}
	if has.Omitted {
		return "texts in its data parts"
	}
	return ""
}
