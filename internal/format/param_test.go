package format

import (
	"encoding/binary"
	"encoding/hex"
	"os"
	"slices"
	"strings"
	"testing"
)

func TestParametersPrintAsPostgreSQLDoes(t *testing.T) {
	data, err := os.ReadFile("testdata/params.txt")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for line := range strings.Lines(string(data)) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		f := strings.SplitN(strings.TrimSuffix(line, "\n"), "|", 3)
		repr := slices.Index(namesRepr[:], f[0])
		value, err := hex.DecodeString(f[1])
		if repr < 0 || err != nil {
			t.Fatalf("bad line %q", line)
		}
		n++
		if got := string(AppendParam(nil, Repr(repr), value)); got != f[2] {
			t.Errorf("%s %s: got %q, PostgreSQL prints %q", f[0], f[1], got, f[2])
		}
	}
	if n < 300 {
		t.Errorf("only %d values tested", n)
	}
}

func TestDamagedParametersAreNotTrusted(t *testing.T) {
	for repr := range 256 {
		for n := range 20 {
			for _, fill := range []byte{0, 1, 2, 3, 0x7f, 0x80, 0xff} {
				v := slices.Repeat([]byte{fill}, n)
				// It must neither panic nor run away: the longest honest
				// output is a numeric with 16383 decimals and 32768 digits of weight.
				if got := AppendParam(nil, Repr(repr), v); len(got) > 200_000 {
					t.Errorf("representation %d, %d bytes of %x: %d bytes of text", repr, n, fill, len(got))
				}
			}
		}
	}
}

// TestValuesThatNoServerHasAreDamaged has times of day and zones beyond what PostgreSQL has, and digits of more than 9999.
func TestValuesThatNoServerHasAreDamaged(t *testing.T) {
	day := binary.LittleEndian.AppendUint64(nil, usecPerDay)
	zone := func(seconds int32) []byte {
		return binary.LittleEndian.AppendUint32(slices.Clone(day), uint32(seconds))
	}
	for _, tt := range []struct {
		repr  Repr
		value []byte
		want  string
	}{
		{ReprTime, day, "24:00:00"},
		{ReprTime, binary.LittleEndian.AppendUint64(nil, usecPerDay+1), "<damaged value>"},
		{ReprTime, binary.LittleEndian.AppendUint64(nil, 1<<63), "<damaged value>"},
		{ReprTimetz, zone(-15*3600 - 3599), "24:00:00+15:59:59"},
		{ReprTimetz, zone(16 * 3600), "<damaged value>"},
		{ReprTimetz, zone(-16 * 3600), "<damaged value>"},
		{ReprNumeric, []byte{0, 0x80, 0x0f, 0x27}, "9999"},
		{ReprNumeric, []byte{0, 0x80, 0x10, 0x27}, "<damaged value>"},
	} {
		if got := string(AppendParam(nil, tt.repr, tt.value)); got != tt.want {
			t.Errorf("%v %x: got %q, want %q", tt.repr, tt.value, got, tt.want)
		}
	}
}

func TestCharPrintsHighBytesInOctal(t *testing.T) {
	for in, want := range map[byte]string{0: "", 'a': "a", 0x80: `\200`, 0xff: `\377`} {
		if got := string(AppendParam(nil, ReprChar, []byte{in})); got != want {
			t.Errorf("%#x: got %q, want %q", in, got, want)
		}
	}
}

// PostgreSQL reads what is printed as the same number.
func TestNumbersOfManyZerosAreShort(t *testing.T) {
	number := func(sign, dscale uint16, weight int16, digits ...uint16) (v []byte) {
		for _, n := range append([]uint16{sign | dscale, uint16(weight)}, digits...) {
			v = binary.LittleEndian.AppendUint16(v, n)
		}
		return v
	}
	for want, v := range map[string][]byte{
		"1e131068":   number(0, 0, 32767, 1),
		"-12345e992": number(0x4000, 0, 249, 1, 2345),
		"125e-16003": number(0, 16003, -4001, 1250),
		"0":          number(0, 16383, 0),
		"1e1":        number(0, 16383, 0, 10),
		"1000000000000000000000000000000000000000000000000": number(0, 0, 12, 1),
		"0.000000000000000000000000000000000001":            number(0, 36, -9, 1),
	} {
		if got := string(AppendParam(nil, ReprNumeric, v)); got != want {
			t.Errorf("got %.80s, want %s", got, want)
		}
	}
}
