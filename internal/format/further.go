// Relations and objects that a record's shape has no space for, and what a record leaves out.

package format

import (
	"bytes"
	"slices"
	"strconv"
	"unsafe"
)

// Kinds of what stands behind the values of a record.
const (
	furtherRelation = 1
	furtherObject   = 2
	furtherVia      = 3
)

// nameFurther is the name in EXTRA of the number of bytes behind the values.
const nameFurther = "further_bytes"

// nameUnseen is the name in EXTRA that a transaction has whose statements were not seen.
const nameUnseen = "unseen"

// Unseen says that the transaction has written, and none of its statements was seen.
func (r *Record) Unseen() bool {
	if r.Kind != KindTransaction || !r.Has(FieldExtra) {
		return false
	}
	_, ok := r.ExtraValue(nameUnseen)
	return ok
}

// furtherBytes is how many bytes at the end of the record's values, which are in its data
// parts, are relations and objects; 0 if there are none, or they are in its shape already.
func (r *Record) furtherBytes() uint64 {
	if !r.Has(FieldExtra) || r.Parts[PartValues] == 0 {
		return 0
	}
	value, _ := r.ExtraValue(nameFurther)
	n, _ := strconv.ParseUint(string(value), 10, 64)
	return n
}

// GoesOn says that the record has more relations and objects than its shape: they are in
// data parts that are not joined, or cannot be.
func (r *Record) GoesOn() bool {
	if !r.Has(FieldExtra) {
		return false
	}
	_, ok := r.ExtraValue(nameFurther)
	return ok
}

// OmitsNames says what of the names of relations and objects the record lacks, in words that
// follow "it"; empty: nothing.
func (r *Record) OmitsNames() string {
	if !r.Has(FieldExtra) {
		return ""
	}
	if _, ok := r.ExtraValue("relations_omitted"); ok {
		return "leaves out relations"
	}
	if _, ok := r.ExtraValue("objects_omitted"); ok {
		return "leaves out objects"
	}
	if r.GoesOn() {
		return "lacks relations and objects, whose data parts are missing"
	}
	return ""
}

// Omissions yields what the record leaves out, as an index has it: relations, columns, objects,
// parameters, the rest of its text, or statements of a transaction that were not seen.
func (r *Record) Omissions(yield func(what []byte) bool) {
	if r.Has(FieldExtra) {
		for name := range r.StoredPairs {
			what, ok := bytes.CutSuffix(name, []byte("_omitted"))
			if string(name) == nameUnseen {
				what, ok = []byte("statements"), true
			}
			if ok && !yield(what) {
				return
			}
		}
	}
	if r.Has(FieldCut) {
		yield([]byte("text"))
	}
}

// mayUse says whether a record may use relations and objects that its shape does not have.
func (r *Record) mayUse() bool {
	return r.Has(FieldExtra) && r.OmitsNames() != "" || r.Unfinished() || r.RefusedUnnamed()
}

// RefusedState is the SQLSTATE insufficient_privilege.
const RefusedState = "42501"

// RefusedUnnamed says that the statement was refused before it was known which relations and objects it uses: it
// names none. SET and RESET use none.
func (r *Record) RefusedUnnamed() bool {
	return r.Kind == KindStatement && r.Outcome == OutcomeError && string(r.SQLState) == RefusedState &&
		(r.Shape == nil || len(r.Shape.Relations)+len(r.Shape.Objects) == 0 && r.Shape.Class != ClassMiscSet)
}

// Unfinished says that the record was made of a statement that had not ended, before it was known which
// relations and objects it uses: it names none.
func (r *Record) Unfinished() bool {
	if r.Kind != KindStart && (r.Kind != KindStatement || r.Outcome != OutcomeInterrupted) {
		return false
	}
	s := r.Shape
	return s == nil || len(s.Relations)+len(s.Objects) == 0 && s.Class != ClassTransaction && s.Class != ClassSetting
}

// TakeFurther moves the relations and objects behind the joined values into the record's
// shape, which is its own then.
func (r *Record) TakeFurther() {
	n := r.furtherBytes()
	if n == 0 || r.Shape == nil || n > uint64(len(r.Values)) {
		return
	}
	at := len(r.Values) - int(n)
	shape := *r.Shape
	if !shape.addFurther(r.Values[at:]) {
		return
	}
	r.Values = r.Values[:at:at]
	if len(shape.Params) == 0 {
		r.Values = nil
		r.Fields &^= FieldValues
	}
	r.Shape, r.ShapeIndex = &shape, -1
	r.removeExtra(nameFurther)
}

// addFurther adds what it reads to the shape. It says whether that was everything.
func (s *Shape) addFurther(b []byte) bool {
	var columns []Column
	taken := 0
	most := dictionaryMin + 8*len(b)
	s.Objects = slices.Clip(s.Objects)
	own := len(s.Relations)
	s.Relations = slices.Clone(s.Relations)
	for c := (cursor{b: b}); c.left() > 0; {
		kind, one := c.byte(), cursor{b: c.str()}
		if c.bad || taken > most {
			return false
		}
		switch kind {
		case furtherRelation:
			r := Relation{Type: RelationType(one.byte()), Access: Access(one.varint()), Name: one.str(), HasColumns: true}
			via, n := one.varint(), one.varint()
			if one.bad || n > uint64(one.left())/2 {
				return false
			}
			from := len(columns)
			for range n {
				column := Column{Access(one.varint()), one.str()}
				if len(column.Name) == 0 {
					r.Omitted |= column.Access
				} else {
					columns = append(columns, column)
				}
			}
			r.Columns, r.Via = columns[from:len(columns):len(columns)], int(min(via, 1<<30))
			s.Relations = append(s.Relations, r)
			taken += int(unsafe.Sizeof(r)) + int(n)*int(unsafe.Sizeof(Column{}))
		case furtherObject:
			s.Objects = append(s.Objects, Object{Action(one.byte()), one.str(), one.str(), one.str()})
			taken += int(unsafe.Sizeof(Object{}))
		case furtherVia:
			i, via := one.varint(), one.varint()
			if i == 0 || i > uint64(own) || via > 1<<30 {
				return false
			}
			s.Relations[i-1].Via = int(via)
		}
		if one.bad {
			return false
		}
	}
	for i := range s.Relations {
		if s.Relations[i].Via > len(s.Relations) {
			return false
		}
	}
	s.plain = s.isPlain()
	return true
}

// removeExtra removes a name from EXTRA.
func (r *Record) removeExtra(name string) {
	c := cursor{b: r.Extra}
	var left []byte
	count := 0
	for range r.ExtraCount {
		from := c.at
		this := c.str()
		c.str()
		if string(this) != name {
			left = append(left, c.b[from:c.at]...)
			count++
		}
	}
	if r.Extra, r.ExtraCount = left, count; count == 0 {
		r.Fields &^= FieldExtra
	}
}
