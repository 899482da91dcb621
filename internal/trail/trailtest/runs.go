// Payloads of random runs of records.

package trailtest

import (
	"encoding/binary"
	"math/rand/v2"

	"github.com/pg-steno/pg_steno/internal/format"
)

// Runs is a payload of runs, and of records between them, of a few sessions and forms.  Most of them are as a server
// writes them; others end too early or too late, or have what no server writes.
func Runs(r *rand.Rand) []byte {
	b := NewBuilder(Epoch)
	number := func(body []byte, max int) []byte {
		if r.IntN(50) == 0 {
			return binary.AppendUvarint(body, r.Uint64())
		}
		return binary.AppendUvarint(body, uint64(r.IntN(max)))
	}
	sessions := 1 + r.IntN(3)
	for i := range sessions {
		body := number(nil, 300)
		if r.IntN(10) == 0 {
			body = binary.AppendUvarint(nil, -uint64(r.IntN(9)))
		}
		body = number(body, 300)
		b.Item(format.KindDefSession,
			binary.LittleEndian.AppendUint32(binary.LittleEndian.AppendUint64(body, uint64(Epoch)), uint32(i)))
	}
	b.Item(format.KindDefText, []byte("SELECT $1"))
	b.shape(&Shape{Command: "SELECT", Params: []format.ParamType{{OID: 23, Repr: format.ReprInt4}}})
	b.shape(&Shape{Command: "UPDATE",
		Params: []format.ParamType{{OID: 25, Repr: format.ReprText}, {OID: 16, Repr: format.ReprBool}}})
	type form struct {
		fields       format.Field
		rows, values int
	}
	var forms []form
	for range 1 + r.IntN(6) {
		const optional = format.FieldRows | format.FieldXID | format.FieldText
		f := form{fields: format.FieldTime | format.FieldDuration | format.Field(r.Uint64())&optional,
			rows: r.IntN(2)}
		if r.IntN(8) == 0 {
			f.fields = format.Field(r.Uint64()) & (optional | format.FieldTime | format.FieldDuration)
		}
		shape := r.IntN(3)
		if shape < 2 {
			f.fields |= format.FieldShape | format.FieldValues
			f.values = 4 + r.IntN(20)/19
		}
		body := binary.AppendUvarint([]byte{byte(r.IntN(sessions))}, uint64(f.fields))
		if f.fields&format.FieldShape != 0 {
			body = append(body, byte(shape))
		}
		if f.fields&format.FieldText != 0 {
			body = append(body, 0)
		}
		if f.fields&format.FieldRows != 0 {
			body = append(body, byte(f.rows))
		}
		if f.fields&format.FieldValues != 0 {
			body = append(body, byte(f.values))
		}
		b.Item(format.KindDefForm, body)
		forms = append(forms, f)
	}
	for range 1 + r.IntN(6) {
		if r.IntN(2) == 0 {
			b.Item(format.KindStatement,
				append(binary.AppendUvarint([]byte{byte(r.IntN(sessions))}, uint64(format.FieldTime)),
					2*byte(r.IntN(60))))
		}
		for range r.IntN(3) {
			fields := format.Field(r.Uint64()) & (format.FieldShape | format.FieldTime | format.FieldDuration |
				format.FieldXID | format.FieldEvent | format.FieldStatements | format.FieldCommit)
			body := binary.AppendUvarint([]byte{byte(r.IntN(sessions))}, uint64(fields))
			for f := format.FieldShape; f <= format.FieldCommit; f <<= 1 {
				switch {
				case fields&f == 0:
				case f == format.FieldShape, f == format.FieldEvent:
					body = append(body, byte(r.IntN(2)))
				case f == format.FieldCommit:
					body = number(number(number(body, 300), 300), 3)
				default:
					body = number(body, 300)
				}
			}
			b.Item(format.KindTransaction, body[:len(body)-r.IntN(20)/19])
		}
		n := 1 + r.IntN(6)
		body := []byte{byte(n)}
		for range n {
			i := r.IntN(len(forms))
			f := forms[i]
			if r.IntN(100) == 0 {
				i = len(forms)
			}
			body = append(body, byte(i))
			if f.fields&format.FieldRows != 0 && f.rows == 0 {
				body = number(body, 200)
			}
			if f.fields&format.FieldTime != 0 {
				body = number(body, 300)
			}
			if f.fields&format.FieldDuration != 0 {
				body = number(body, 300)
			}
			if f.fields&format.FieldValues != 0 {
				value := []byte{2, 'a', 'b', 1, 0}
				if r.IntN(30) == 0 {
					value[0] = byte(r.IntN(9))
				}
				body = append(body, value[:f.values]...)
			}
			if f.fields&format.FieldXID != 0 {
				body = number(body, 300)
			}
		}
		switch r.IntN(30) {
		case 0:
			body = append(body, byte(r.IntN(2)))
		case 1:
			body = body[:len(body)-1]
		case 2:
			body[len(body)-1] |= 0x80
		}
		b.Item(format.KindRun, body)
	}
	return b.Payload
}
