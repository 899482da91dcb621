package query

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pg-steno/pg_steno/internal/format"
	"github.com/pg-steno/pg_steno/internal/trail/trailtest"
)

// hostileWords are strings that no server, or hardly any, would have where they are.
var hostileWords = []string{
	"", "", "alice", "hr.staff", "hr", "\x00", "al\x00ice", "\xff\xfe\x80", "h\xc3r.st\xc3aff", "\u202ealice", "a\nb\r\tc", "\x1b[2J", "'", `"`, `"a.b"."c"`, `"unfinished`, "*",
	"%s%n", "..", ".", "a.b.c.d.e", "{", "[1,2", "NaN", "-1", "0", "18446744073709551615", "9223372036854775808", "99999999999999999999", "1e400", "0/0", "FFFFFFFF/FFFFFFFF",
	"true", "commit", "start", "stop", "deleted", "branch", "key", "2026-11-21T20:50:00Z", "infinity", "6b0202d9.fa0", "4711", "SELECT", "é", "😀", "$$", "$1", "=cmd|' /C calc'!A0", "UTF8", "LATIN1",
	"SJIS", "BIG5", "MULE_INTERNAL", "SQL_ASCII", strings.Repeat("x", 70_000), strings.Repeat("a.", 2000), strings.Repeat(`"`, 999), strings.Repeat("(", 5000), strings.Repeat("/*", 3000),
}

// hostileNames are the names in EXTRA that something is done with.
var hostileNames = []string{
	"relations_omitted", "parameters_omitted", "objects_omitted", "columns_omitted", "further_bytes", "search_path", "gid", "unseen", "first_seq", "last_seq", "after_statement", "after_substatement",
	"name", "old", "new", "source", "file", "line", "reason", "block", "record", "hash", "first", "interval", "key", "next_key", "signature", "count", "bytes", "event", "version", "blocks", "stream",
	"run", "system_identifier", "timeline", "host", "data_directory", "cluster_name", "began", "max_prepared_transactions", "log_min_messages", "log_min_messages_of_sessions", "not_run_since_wal", "wal",
	"shut_down", "since", "until", "attempts", "dropped", "refused", "writer", "program", "found", "unused", "from_run", "from_host", "from_directory", "first_segment", "last_segment", "first_block",
	"last_block", "records", "last_record", "since_segment", "total_records", "total_bytes", "missing", "chain", "repeated", "portal", "salvaged", "steno.log", "steno.rules", "steno.writers", "steno.role",
}

// hostileNamesOf are the names that belong together: a record with all of them is looked at more closely.
var hostileNamesOf = map[format.Kind][][]string{
	format.KindSubtransaction: {{"first_seq", "last_seq"}, {"first_seq", "last_seq", "after_statement", "after_substatement"}, {"last_seq"}},
	format.KindGap:            {{"count"}, {"count", "first_seq", "last_seq", "reason"}, {"bytes"}},
	format.KindServer: {
		{"event", "version", "run", "system_identifier", "steno.writers"}, {"event", "stream", "reason", "block", "hash", "found", "run"}, {"event", "since", "reason"}, {"event", "since", "until", "attempts", "dropped", "refused"},
		{"event", "stream", "reason", "first_segment", "last_segment", "first_block", "last_block", "records", "last_record", "bytes", "since_segment", "total_records", "total_bytes", "chain"},
		{"event", "blocks", "stream"}, {"event", "writer", "since"}, {"event", "wal"},
	},
	format.KindSeal:        {{"reason", "block", "record", "hash", "first", "interval", "key", "signature"}},
	format.KindSetting:     {{"name", "old", "new", "source"}, {"name", "new", "source", "file", "line"}},
	format.KindTransaction: {{"gid"}, {"unseen"}},
}

var hostileEvents = []string{"start", "stop", "recover", "torn", "lost", "deleted", "failure", "recovered", "restart", "begin", "branch", "salvage"}

// hostile makes contents in which numbers, times, names and references are what they should not be.
type hostile struct {
	*rand.Rand
	sessions []*trailtest.Session
}

func (h *hostile) word() string {
	if oneIn(h.Rand, 3) {
		return pick(h.Rand, append(users, tables...))
	}
	return pick(h.Rand, hostileWords)
}

func (h *hostile) number() uint64 {
	switch h.IntN(4) {
	case 0:
		return pick(h.Rand, extremes)
	case 1:
		return h.Uint64()
	}
	return uint64(h.IntN(8))
}

func (h *hostile) time() int64 {
	switch h.IntN(6) {
	case 0:
		return pick(h.Rand, []int64{math.MinInt64, math.MinInt64 + 1, -1, 0, 1, math.MaxInt64 - 1, math.MaxInt64, math.MaxInt64 / 1000, -211813488000000000, 9223371331200000000, 252455615999999999})
	case 1:
		return int64(h.Uint64())
	}
	return trailtest.Epoch + h.Int64N(20*minute)
}

func (h *hostile) session() *trailtest.Session {
	start, pid := h.time(), uint32(4000+h.IntN(4))
	if oneIn(h.Rand, 2) {
		start = trailtest.Epoch
	}
	id := format.SessionID{Start: start, PID: pid}
	var facts []trailtest.Fact
	for range h.IntN(10) {
		key, value := format.Key(h.IntN(16)), h.word()
		if key == format.KeyLeader || key == format.KeyLeaderSubstatement {
			value = pick(h.Rand, []string{id.String(), id.String(), "6b0202d9.fa0", "6b0202d9.fa1", h.word(), fmt.Sprint(h.number())}) // often itself
		}
		facts = append(facts, trailtest.Fact{Key: key, Value: value})
	}
	return trailtest.NewSession(start, pid, facts...)
}

func (h *hostile) shape() *trailtest.Shape {
	s := &trailtest.Shape{
		Class: format.Class(h.IntN(13)), QueryID: h.number(), Command: pick(h.Rand, []string{"SELECT", "ALTER TABLE", "ALTER ROLE", "GRANT", "ROLLBACK", "COPY", h.word(), h.word()}),
	}
	for range h.IntN(5) {
		r := trailtest.Relation{Type: format.RelationType(h.IntN(11)), Access: format.Access(h.number()), Name: h.word()}
		if oneIn(h.Rand, 3) {
			r.Access = format.Access(h.IntN(256))
		}
		for range h.IntN(4) {
			r.Columns = append(r.Columns, trailtest.Column{Access: format.Access(h.IntN(256)), Name: pick(h.Rand, append(columns, h.word()))})
		}
		s.Relations = append(s.Relations, r)
	}
	for i := range s.Relations { // views through each other, and through themselves
		s.Relations[i].Via = h.IntN(len(s.Relations) + 1)
	}
	for range h.IntN(4) {
		s.Params = append(s.Params, format.ParamType{OID: h.number(), Repr: format.Repr(h.IntN(24))})
	}
	for range h.IntN(4) { // names that become each other
		s.Objects = append(s.Objects, trailtest.Object{
			Action: format.Action(h.IntN(7)), Type: pick(h.Rand, []string{"table", "role", "schema", "table column", "view", "function", "database", h.word()}), Name: h.word(), To: h.word(),
		})
	}
	s.Query, s.Prepared = pick(h.Rand, []string{"", "INSERT", h.word()}), pick(h.Rand, []string{"", "", h.word()})
	return s
}

func (h *hostile) value(name string) string {
	switch {
	case name == "event":
		return pick(h.Rand, hostileEvents)
	case name == "reason" && oneIn(h.Rand, 2):
		return pick(h.Rand, []string{"copy", "altered", "cut off", "gone", "size", "age", "slot_max_size", "ring full", "stop", "end", "key", "start", "interval"})
	case (name == "hash" || name == "chain" || name == "key" || name == "signature") && oneIn(h.Rand, 2):
		return strings.Repeat("0", pick(h.Rand, []int{16, 64, 128}))
	case oneIn(h.Rand, 4):
		return h.word()
	}
	return fmt.Sprint(h.number())
}

func (h *hostile) record() *trailtest.Record {
	r := &trailtest.Record{Kind: format.Kind(1 + h.IntN(13)), Session: pick(h.Rand, h.sessions), Time: h.time()}
	if oneIn(h.Rand, 3) {
		r.Kind = format.KindStatement
	}
	often := func(n int, f func()) {
		if oneIn(h.Rand, n) {
			f()
		}
	}
	often(2, func() { r.Shape = h.shape() })
	often(2, func() { r.Text = h.word() })
	often(3, func() { r.Rows = h.number() })
	often(3, func() { r.Duration = h.number() })
	if r.Shape != nil && len(r.Shape.Params) > 0 {
		often(2, func() { r.Nulls = []byte{byte(h.Uint32())} })
		often(2, func() { r.Values = []byte(h.word()); r.Values = r.Values[:min(len(r.Values), 300)] })
	}
	often(6, func() { r.Seq = h.number() })
	often(6, func() { r.Unnumbered = true })
	often(6, func() { r.Statement = h.number() })
	often(3, func() { r.Depth, r.Substatement = uint64(h.IntN(3)), h.number() })
	often(12, func() { r.Depth, r.Substatement = h.number(), r.Statement })
	often(3, func() { r.Outcome = format.Outcome(h.IntN(5)) })
	often(4, func() {
		r.SQLState, r.Message = pick(h.Rand, []string{"42501", "\x00\x00\x00\x00\x00", "\xff\xff\xff\xff\xff", "28P01"}), h.word()
	})
	often(2, func() { r.XID = pick(h.Rand, []uint64{770, 771, h.number()}) })
	often(6, func() { r.TextBytes = h.number() })
	often(8, func() { r.Parts = [3]uint64{h.number() & 0x3fffffff, uint64(h.IntN(9)), uint64(h.IntN(9))} })
	often(8, func() { r.Audited = format.Audited(h.IntN(256)) })
	if all := hostileNamesOf[r.Kind]; all != nil && !oneIn(h.Rand, 4) {
		for _, name := range pick(h.Rand, all) {
			r.Extra = append(r.Extra, name, h.value(name))
		}
	}
	for h.IntN(4) == 0 {
		name := pick(h.Rand, hostileNames)
		r.Extra = append(r.Extra, name, h.value(name))
	}
	return r
}

// item is an item that no builder would make.
func (h *hostile) item(b *trailtest.Builder) {
	body := []byte{}
	for range h.IntN(12) {
		switch h.IntN(3) {
		case 0:
			body = binary.AppendUvarint(body, h.number())
		case 1:
			body = append(body, byte(h.Uint32()))
		default:
			s := h.word()
			body = append(binary.AppendUvarint(body, uint64(len(s))), s...)
		}
	}
	b.Item(pick(h.Rand, []format.Kind{
		0, 64, format.KindTimes, format.KindTimes, format.KindDefVariant, format.KindDefIndex, format.KindDefForm, format.KindRun, format.Kind(70 + h.IntN(50)), format.Kind(140 + h.IntN(100)), format.Kind(h.IntN(256)),
	}), body)
}

// index makes an index of terms that overrun, of groups and blocks that there are not, or that hides what there is.
func (h *hostile) index(block uint64) []byte {
	small := func(n int) uint64 {
		if oneIn(h.Rand, 6) {
			return h.number()
		}
		return uint64(h.IntN(n))
	}
	first, covers := uint64(1), block-1
	if oneIn(h.Rand, 3) {
		first, covers = small(8), small(8)
	}
	groups := uint64(1) << h.IntN(3)
	body := binary.AppendUvarint(binary.AppendUvarint(nil, first), covers)
	body = binary.AppendUvarint(body, pick(h.Rand, []uint64{groups, groups, groups, h.number()}))
	size := int(min(covers, 1<<14)/groups+8) / 8
	for range h.IntN(18) {
		list := bytes.Repeat([]byte{byte(h.IntN(2) * 255)}, size)
		terms := h.IntN(4)
		list = binary.AppendUvarint(list, pick(h.Rand, []uint64{uint64(terms), uint64(terms), h.number()}))
		for range terms {
			term := h.word()
			list = binary.AppendUvarint(list, pick(h.Rand, []uint64{uint64(len(term)), uint64(len(term)), h.number()}))
			list = append(append(list, term...), bytes.Repeat([]byte{byte(h.Uint32())}, size)...)
		}
		body = binary.AppendUvarint(body, small(18))
		body = binary.AppendUvarint(body, pick(h.Rand, []uint64{uint64(len(list)), uint64(len(list)), uint64(len(list)), h.number()}))
		body = append(body, list...)
	}
	return body
}

// write writes a trail of one to three streams.
func (h *hostile) write(t testing.TB, dir string, key *[format.KeySize]byte) {
	for n := range 1 + h.IntN(3) {
		s := trailtest.NewEncryptedStream(t, dir, uint32(n), key)
		block := uint64(1)
		h.sessions = nil
		for range 3 {
			h.sessions = append(h.sessions, h.session())
		}
		for range 1 + h.IntN(6) {
			b := trailtest.NewBuilder(trailtest.Epoch)
			for range h.IntN(12) {
				if oneIn(h.Rand, 25) {
					h.item(b)
				}
				if oneIn(h.Rand, 25) {
					b.Data(pick(h.Rand, h.sessions), h.number(), format.PartKind(h.IntN(3)), h.word())
				}
				if oneIn(h.Rand, 12) {
					i := h.IntN(len(h.sessions))
					h.sessions[i] = h.sessions[i].With(trailtest.Fact{Key: format.Key(h.IntN(16)), Value: h.word()})
				}
				b.Add(h.record())
			}
			s.Write(t, b)
			block++
			if oneIn(h.Rand, 3) {
				b := trailtest.NewBuilder(trailtest.Epoch)
				b.Item(format.KindDefIndex, h.index(block))
				s.Write(t, b)
				block++
			}
			if oneIn(h.Rand, 4) {
				s.Rotate(t, h.time())
			}
		}
	}
	if oneIn(h.Rand, 3) {
		var text strings.Builder
		text.WriteString("pg_steno retention 1\n")
		for range h.IntN(3) {
			fmt.Fprintf(&text, "stream %d since %d segments %d %d blocks %d %d records %d %d bytes %d total %d %d missing %d at %d %d %d %d chain %064x block %064x reason %s\n",
				h.IntN(2), h.number(), h.number(), h.number(), h.number(), h.number(), h.number(), h.number(), h.number(), h.number(), h.number(), h.number(), h.IntN(3), 1+h.IntN(2), h.number(), h.number(), h.number(), 0, "age")
		}
		if err := os.WriteFile(filepath.Join(dir, "retention"), []byte(text.String()), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// TestHostileContentsStopNobody writes trails whose form is right, and whose contents are not those of any server:
// times at the ends of what a number can be, sessions that lead themselves, views through themselves, names that become
// each other, ranges of all numbers, indexes that say too much or too little. Each command reads them, as in
// TestCraftedTrailsStopNobody. STENO_CRAFTED is how many, STENO_SEED the first seed.
func TestHostileContentsStopNobody(t *testing.T) {
	_, key := craftedBases(t)
	seed := uint64(fromEnvironment(t, "STENO_SEED", int(time.Now().Unix())))
	for i := range uint64(fromEnvironment(t, "STENO_CRAFTED", 6)) {
		h := &hostile{Rand: rand.New(rand.NewPCG(seed+i, 17))}
		ok := t.Run(fmt.Sprint(seed+i), func(t *testing.T) {
			work := t.TempDir()
			dir := filepath.Join(work, "trail")
			var access []string
			var secret *[format.KeySize]byte
			if oneIn(h.Rand, 3) {
				secret = &[format.KeySize]byte{1, 2, 3}
				access = []string{"--encryption-key-file", keyFile(t, *secret)}
			}
			h.write(t, dir, secret)
			prepare(t, work, systemOf(dir))
			var all, some string
			for i, args := range everything(dir, work, key, access...) {
				said, code := execute(t, args...)
				switch {
				case i == 0:
					all = said
				case i == 1:
					some = said
				case i == 6 && code == 0:
					agree(t, all, some)
				}
			}
		})
		if !ok {
			t.Fatalf("STENO_SEED=%d", seed+i)
		}
	}
}
