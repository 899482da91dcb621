// What query, export and top read of a trail with many segments.

package query

import (
	"context"
	"os"
	"strings"
	"testing"

	"github.com/pg-steno/pg_steno/internal/format"
	"github.com/pg-steno/pg_steno/internal/render"
	"github.com/pg-steno/pg_steno/internal/trail/trailtest"
)

// Of a range, what it has is read, and the headers of the other segments.
func TestOnlyTheRangeIsRead(t *testing.T) {
	const segments, blocks, records = 64, 40, 100
	dir := t.TempDir()
	end := trailtest.Minutes(t, dir, segments, blocks, records)
	info, err := os.Stat(dir + "/0/0000000030.steno")
	if err != nil {
		t.Fatal(err)
	}
	const window = 64 << 10 // the most that is read at once to find blocks
	at := func(minutes int) string { return render.Time(end - int64(minutes)*60e6) }
	for _, c := range []struct {
		line     []string
		segments int64 // that have something of the range; export reads its lines again, and top has a minute before
		want     string
	}{
		{[]string{"query", "SELECT count(*) FROM trail", dir, "--since", at(20), "--until", at(19), "--format", "csv"}, 2, "4000"},
		{[]string{"query", "SELECT count(*) FROM trail WHERE time >= '" + at(20) + "' AND time < '" + at(19) + "'", dir, "--format", "csv"}, 2, "4000"},
		{[]string{"export", "--format", "csv", "--out", t.TempDir() + "/out", "--since", at(20), "--until", at(19), dir}, 4, ""},
		{[]string{"top", "--once", "--at", at(20), "--window", "1m", dir}, 4, "alice"},
	} {
		var out, errOut string
		code := 0
		read := trailtest.BytesRead(t, func() { out, errOut, code = commanded(context.Background(), c.line...) })
		if code != 0 || !strings.Contains(out, c.want) {
			t.Errorf("%q: code %d, %s%s", c.line, code, out, errOut)
		}
		// headers of blocks, to choose them, and the blocks; what the programs read of themselves and the system
		if limit := segments*format.EncryptedHeaderSize + 3*c.segments*(info.Size()+window) + 200_000; read > limit {
			t.Errorf("%q: %d bytes are read, more than %d", c.line, read, limit)
		}
	}
}
