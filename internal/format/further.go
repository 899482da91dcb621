// Relations and objects for which a record's shape has no space, and what a record leaves out.

package format

import (
	"bytes"
	"slices"
	"strconv"
	"unsafe"
)

// Kinds of the items that follow the values of a record.
const (
	furtherRelation = 1
	furtherObject   = 2
	furtherVia      = 3
)

// nameFurther is the name in EXTRA for the number of bytes that follow the values.
const nameFurther = "further_bytes"

// nameUnseen is the name in EXTRA of a transaction whose statements the session has not seen.
const nameUnseen = "unseen"

// Unseen returns whether the transaction has written although the session has seen none of its statements.
func (r *Record) Unseen() bool {
	if r.Kind != KindTransaction || !r.Has(FieldExtra) {
		return false
	}
	_, ok := r.ExtraValue(nameUnseen)
	return ok
}

// furtherBytes returns how many bytes at the end of the record's values, which are in data parts, describe
// relations and objects; 0: none, or ExtractFurther has moved them into the shape.
func (r *Record) furtherBytes() uint64 {
	if !r.Has(FieldExtra) || r.Parts[PartValues] == 0 {
		return 0
	}
	value, _ := r.ExtraValue(nameFurther)
	n, _ := strconv.ParseUint(string(value), 10, 64)
	return n
}

// HasFurther returns whether the record has relations and objects besides those of its shape: they are in data
// parts that were not joined, or cannot be.
func (r *Record) HasFurther() bool {
	if !r.Has(FieldExtra) {
		return false
	}
	_, ok := r.ExtraValue(nameFurther)
	return ok
}

// OmitsNames returns which names of relations and objects the record lacks, in words that follow "it"; empty:
// none.
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
	if r.HasFurther() {
		return "lacks relations and objects, whose data parts are missing"
	}
	return ""
}

// Omissions yields what the record leaves out, by the terms of an index: relations, columns, objects,
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

// mayUseUnnamed returns whether the record may use relations and objects that its shape does not have.
func (r *Record) mayUseUnnamed() bool {
	return r.Has(FieldExtra) && r.OmitsNames() != "" || r.Unfinished() || r.RefusedUnnamed()
}

// RefusedState is the SQLSTATE insufficient_privilege.
const RefusedState = "42501"

// RefusedUnnamed returns whether the statement was refused before its relations and objects were known, so that
// the record has none. SET and RESET use none.
func (r *Record) RefusedUnnamed() bool {
	return r.Kind == KindStatement && r.Outcome == OutcomeError && string(r.SQLState) == RefusedState &&
		(r.Shape == nil || len(r.Shape.Relations)+len(r.Shape.Objects) == 0 && r.Shape.Class != ClassMiscSet)
}

// Unfinished returns whether the record is of a statement that had not ended, and whose relations and objects
// were not known yet, so that the record has none.
func (r *Record) Unfinished() bool {
	if r.Kind != KindStart && (r.Kind != KindStatement || r.Outcome != OutcomeInterrupted) {
		return false
	}
	s := r.Shape
	return s == nil || len(s.Relations)+len(s.Objects) == 0 && s.Class != ClassTransaction && s.Class != ClassSetting
}

// ExtractFurther moves the relations and objects that follow the joined values into the shape, which becomes a
// copy of the record's own.
func (r *Record) ExtractFurther() {
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

// addFurther adds relations and objects to the shape. It returns false if they are not valid.
func (s *Shape) addFurther(b []byte) bool {
	var columns []Column
	memory := 0
	maxMemory := dictionaryMin + 8*len(b)
	s.Objects = slices.Clip(s.Objects)
	own := len(s.Relations)
	s.Relations = slices.Clone(s.Relations)
	for c := (cursor{b: b}); c.left() > 0; {
		kind, item := c.byte(), cursor{b: c.str()}
		if c.bad || memory > maxMemory {
			return false
		}
		switch kind {
		case furtherRelation:
			r := Relation{
				Type:       RelationType(item.byte()),
				Access:     Access(item.varint()),
				Name:       item.str(),
				HasColumns: true,
			}
			via, n := item.varint(), item.varint()
			if item.bad || n > uint64(item.left())/2 {
				return false
			}
			from := len(columns)
			for range n {
				column := Column{Access(item.varint()), item.str()}
				if len(column.Name) == 0 {
					r.Omitted |= column.Access
				} else {
					columns = append(columns, column)
				}
			}
			r.Columns, r.Via = columns[from:len(columns):len(columns)], int(min(via, 1<<30))
			s.Relations = append(s.Relations, r)
			memory += int(unsafe.Sizeof(r)) + int(n)*int(unsafe.Sizeof(Column{}))
		case furtherObject:
			s.Objects = append(s.Objects, Object{Action(item.byte()), item.str(), item.str(), item.str()})
			memory += int(unsafe.Sizeof(Object{}))
		case furtherVia:
			i, via := item.varint(), item.varint()
			if i == 0 || i > uint64(own) || via > 1<<30 {
				return false
			}
			s.Relations[i-1].Via = int(via)
		}
		if item.bad {
			return false
		}
	}
	for i := range s.Relations {
		if s.Relations[i].Via > len(s.Relations) {
			return false
		}
	}
	s.ascii = s.isASCII()
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
