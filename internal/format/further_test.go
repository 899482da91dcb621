package format

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"
)

func putString(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

func putFurther(b []byte, kind byte, one []byte) []byte {
	return putString(append(b, kind), string(one))
}

// drawFurther draws relations and objects that stand behind values, as FORMAT.md describes
// them, and what a reader should make of a shape that has own relations.
func drawFurther(own int) (b []byte, relations []Relation, objects []Object) {
	name := func(what string) string { return fmt.Sprintf("s.%s%d", what, rand.IntN(1000)) }
	all := rand.IntN(20)
	for i := range own {
		relations = append(relations, Relation{Name: []byte(fmt.Sprintf("own%d", i))})
	}
	vias := map[int]int{}
	for range all {
		switch rand.IntN(4) {
		case 0, 1:
			r := Relation{Type: RelationType(rand.IntN(5)), Access: Access(rand.IntN(1 << 12)), Name: []byte(name("t")), HasColumns: true}
			one := putString(binary.AppendUvarint([]byte{byte(r.Type)}, uint64(r.Access)), string(r.Name))
			if rand.IntN(2) == 0 && len(relations) > 0 {
				r.Via = rand.IntN(len(relations)) + 1
			}
			columns := rand.IntN(4)
			one = binary.AppendUvarint(binary.AppendUvarint(one, uint64(r.Via)), uint64(columns))
			for range columns {
				c := Column{Access(rand.IntN(1 << 10)), []byte(name("c"))}
				if rand.IntN(5) == 0 {
					c.Name = nil
					r.Omitted |= c.Access
				} else {
					r.Columns = append(r.Columns, c)
				}
				one = putString(binary.AppendUvarint(one, uint64(c.Access)), string(c.Name))
			}
			b = putFurther(b, furtherRelation, one)
			relations = append(relations, r)
		case 2:
			o := Object{Action(rand.IntN(5)), []byte("table"), []byte(name("o")), []byte(name("to"))}
			one := []byte{byte(o.Action)}
			for _, s := range [][]byte{o.Type, o.Name, o.To} {
				one = putString(one, string(s))
			}
			b = putFurther(b, furtherObject, one)
			objects = append(objects, o)
		case 3:
			// a kind that a later version adds
			b = putFurther(b, 100+byte(rand.IntN(100)), []byte(name("?")))
		}
		if own > 0 && rand.IntN(6) == 0 {
			i := rand.IntN(own)
			vias[i] = rand.IntN(len(relations)) + 1
			b = putFurther(b, furtherVia, binary.AppendUvarint(binary.AppendUvarint(nil, uint64(i+1)), uint64(vias[i])))
		}
	}
	for i, via := range vias {
		relations[i].Via = via
	}
	return b, relations, objects
}

func describeLists(relations []Relation, objects []Object) string {
	var b bytes.Buffer
	for _, r := range relations {
		fmt.Fprintf(&b, "%d %d %s %d %d:", r.Type, r.Access, r.Name, r.Via, r.Omitted)
		for _, c := range r.Columns {
			fmt.Fprintf(&b, " %d %s", c.Access, c.Name)
		}
		b.WriteByte('\n')
	}
	for _, o := range objects {
		fmt.Fprintf(&b, "%d %s %s %s\n", o.Action, o.Type, o.Name, o.To)
	}
	return b.String()
}

func TestFurtherRelationsAndObjectsFollowThoseOfTheShape(t *testing.T) {
	for range 3000 {
		own := rand.IntN(4)
		shape := Shape{}
		for i := range own {
			shape.Relations = append(shape.Relations, Relation{Name: []byte(fmt.Sprintf("own%d", i))})
		}
		before := describeLists(shape.Relations, nil)
		further, relations, objects := drawFurther(own)
		var values []byte
		if rand.IntN(2) == 0 {
			shape.Params = []ParamType{{OID: 23, Repr: ReprInt4}}
			values = []byte{1, 2, 3, 4}
		}
		extra := putString(putString(nil, "a"), "b")
		extra = putString(putString(extra, nameFurther), fmt.Sprint(len(further)))
		r := Record{Shape: &shape, Values: append(bytes.Clone(values), further...), Extra: extra, ExtraCount: 2, Fields: FieldExtra | FieldValues | FieldShape}
		r.Parts[PartValues] = uint64(len(r.Values))
		if !r.HasFurther() || r.OmitsNames() == "" {
			t.Fatal("a record whose parts are not joined says nothing of it")
		}
		r.ExtractFurther()
		if len(further) == 0 {
			continue
		}
		if got, want := describeLists(r.Shape.Relations, r.Shape.Objects), describeLists(relations, objects); got != want {
			t.Fatalf("%x:\n%s\nexpected:\n%s", further, got, want)
		}
		if !bytes.Equal(r.Values, values) || r.HasFurther() || r.ExtraCount != 1 {
			t.Fatalf("values %x, expected %x; extra %q", r.Values, values, r.Extra)
		}
		if describeLists(shape.Relations, nil) != before {
			t.Fatal("the shape, which other records have, was changed")
		}
		// bytes that are cut off give no more, and leave the shape as it is
		other := shape
		other.addFurther(further[:rand.IntN(len(further))])
		if len(other.Relations)+len(other.Objects) > len(relations)+len(objects) || describeLists(shape.Relations, nil) != before {
			t.Fatalf("%x: a part of it gives %v", further, other)
		}
	}
}

// FuzzFurther reads any bytes as further relations and objects: no panic, no view that does not
// exist, and no more memory than the bytes explain.
func FuzzFurther(f *testing.F) {
	for range 20 {
		b, _, _ := drawFurther(2)
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var before, after runtime.MemStats
		shape := Shape{Relations: []Relation{{Name: []byte("a")}, {Name: []byte("b")}}}
		runtime.ReadMemStats(&before)
		ok := shape.addFurther(b)
		runtime.ReadMemStats(&after)
		if got, most := after.TotalAlloc-before.TotalAlloc, uint64(1<<20+200*len(b)); got > most {
			t.Fatalf("%d bytes took %d", len(b), got)
		}
		if !ok {
			return
		}
		for _, r := range shape.Relations {
			if r.Via < 0 || r.Via > len(shape.Relations) {
				t.Fatalf("view %d of %d", r.Via, len(shape.Relations))
			}
		}
	})
}

// TestRefusedStatementsMayHaveUsedAnything: those that name nothing, if they are of a kind that uses something.
func TestRefusedStatementsMayHaveUsedAnything(t *testing.T) {
	for _, c := range []struct {
		what  string
		state string
		shape *Shape
		want  bool
	}{
		{"SELECT", RefusedState, &Shape{Class: ClassRead}, true},
		{"a statement without a shape", RefusedState, nil, true},
		{"one that names a table", RefusedState, &Shape{Class: ClassRead, Relations: []Relation{{Name: []byte("t")}}}, false},
		{"another error", "42P01", &Shape{Class: ClassRead}, false},
		{"SET", RefusedState, &Shape{Class: ClassMiscSet}, false},
	} {
		r := Record{Kind: KindStatement, Outcome: OutcomeError, SQLState: []byte(c.state), Shape: c.shape}
		if r.RefusedUnnamed() != c.want || r.mayUseUnnamed() != c.want {
			t.Errorf("%s: %v and %v, want %v", c.what, r.RefusedUnnamed(), r.mayUseUnnamed(), c.want)
		}
	}
}
