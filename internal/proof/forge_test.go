package proof

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"encoding/binary"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/pg-steno/pg_steno/internal/format"
	"github.com/pg-steno/pg_steno/internal/query"
	"github.com/pg-steno/pg_steno/internal/seal"
	"github.com/pg-steno/pg_steno/internal/trail/trailtest"
)

// What somebody can do to a proof who knows the format and has a whole trail, but not the
// private key: any sections in any order, with a right checksum.

func privateKey(seed byte) ed25519.PrivateKey {
	return ed25519.NewKeyFromSeed(bytes.Repeat([]byte{seed}, ed25519.SeedSize))
}

// apart takes a proof apart.
func apart(t testing.TB, path string) (all []section) {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	r, err := newSectionReader(f)
	if err != nil {
		t.Fatal(err)
	}
	for {
		s, err := r.next()
		if err == io.EOF {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		s.body = bytes.Clone(s.body)
		all = append(all, s)
	}
}

// together writes a proof with these sections.
func together(t testing.TB, all []section) string {
	t.Helper()
	var out bytes.Buffer
	w := newSectionWriter(&out)
	for _, s := range all {
		w.section(s.kind, s.body)
	}
	if err := w.end(); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "forged")
	if err := os.WriteFile(path, out.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// nth is the index of the nth section of a kind; -1 is the last.
func nth(all []section, k kind, n int) int {
	var found []int
	for i := range all {
		if all[i].kind == k {
			found = append(found, i)
		}
	}
	if n < 0 {
		n += len(found)
	}
	return found[n]
}

// has is the index of the block with a text.
func has(all []section, text string) int {
	return slices.IndexFunc(all, func(s section) bool { return s.kind == kindBlock && bytes.Contains(s.body, []byte(text)) })
}

func without(all []section, i int) []section { return slices.Delete(slices.Clone(all), i, i+1) }

func number(s *section) uint64 { return binary.LittleEndian.Uint64(s.body[24:]) }

// asks changes the question.
func asks(all []section, change func(q *Question)) []section {
	q, err := decodeQuestion(all[0].body)
	if err != nil {
		panic(err)
	}
	change(q)
	all[0].body, _ = json.Marshal(q)
	return all
}

// rehash makes a block's checksums and chain hash right.
func rehash(b []byte, previous []byte) []byte {
	b = bytes.Clone(b)
	binary.LittleEndian.PutUint64(b[64:], xxhash.Sum64(b[112:]))
	sum := sha(previous, b[:72], b[112:])
	copy(b[72:], sum)
	trailtest.SealHeader(b)
	return b
}

func TestForgedProofsAreRefused(t *testing.T) {
	options := small{streams: 2, settings: []string{"steno.writers", "2"}}
	dir := options.write(t)
	// Another trail of the same server with the same key, as a clone can write it.
	otherDir := small{streams: 2, settings: options.settings, extra: map[int]func(*writer, *trailtest.Session) []*trailtest.Record{
		3: func(w *writer, alice *trailtest.Session) []*trailtest.Record {
			return []*trailtest.Record{reads(alice, 3.5, "hr.clone")}
		},
	}}.write(t)
	proofs := map[bool][]section{}
	others := map[bool][]section{}
	for _, full := range []bool{false, true} {
		q := question(t, 22, 32, full, ofSalary)
		for to, from := range map[*map[bool][]section]string{&proofs: dir, &others: otherDir} {
			path, err := makeProof(t, from, q, nil)
			if err != nil {
				t.Fatal(err)
			}
			if r := checked(t, path, Checks{}); !r.Complete || r.Matches != 1 {
				t.Fatalf("%+v", r)
			}
			(*to)[full] = apart(t, path)
		}
	}
	const salary = "hr.salary"
	for _, test := range []struct {
		name  string
		only  string // "full": a proof without indexes, "indexed": one with them
		forge func(all, other []section) []section
		wants string
	}{
		{"a payload changed", "", func(all, _ []section) []section {
			i := has(all, salary)
			all[i].body = bytes.ReplaceAll(all[i].body, []byte(salary), []byte("hr.garden"))
			return all
		}, `does not follow from block|was changed`},
		{"a payload changed, and its checksums", "", func(all, _ []section) []section {
			i := has(all, salary)
			body := bytes.ReplaceAll(all[i].body, []byte(salary), []byte("hr.garden"))
			all[i].body = rehash(body, before(all, i))
			return all
		}, `is not the one that was sealed|does not follow`},
		{"the block that matches left out", "", func(all, _ []section) []section {
			return without(all, has(all, salary))
		}, `found block|is not the one that was sealed`},
		{"the block that matches left out, and said so", "", func(all, _ []section) []section {
			i := has(all, salary)
			return leaveOut(all, i, i+1)
		}, `no index in the proof shows|no seal follows`},
		{"the block that matches and its seal left out, and said so", "", func(all, _ []section) []section {
			i := has(all, salary)
			end := i + 1
			for all[end].kind != kindSeal {
				end++
			}
			// behind the seal: what follows is said to follow from the left-out block
			return slices.Concat(leaveOut(all, i, i+1)[:i+1], all[end:])
		}, `no index in the proof shows|no seal follows`},
		{"the block that matches left out, without a trace", "indexed", func(all, _ []section) []section {
			return hide(all, has(all, salary))
		}, `block \d+ is left out, and no index in the proof shows`},
		{"an index left out", "", func(all, _ []section) []section {
			i := slices.IndexFunc(all, func(s section) bool { return s.kind == kindBlock && binary.LittleEndian.Uint32(s.body[16:]) == 0 })
			return leaveOut(all, i, i+1)
		}, `no index in the proof shows|no seal follows|left out`},
		{"a seal left out", "", func(all, _ []section) []section { return without(all, nth(all, kindSeal, -1)) }, `no seal follows`},
		{"all seals left out", "", func(all, _ []section) []section {
			return slices.DeleteFunc(all, func(s section) bool { return s.kind == kindSeal })
		}, `no seal follows`},
		{"a segment header left out", "", func(all, _ []section) []section { return without(all, nth(all, kindSegment, 0)) }, `place in the chain is not stated|uncovered|left out`},
		{"a stream left out", "", func(all, _ []section) []section { return all[:nth(all, kindStream, 1)] }, `had 2 writers .* only 1 streams`},
		{"the first stream left out", "", func(all, _ []section) []section {
			return slices.Delete(all, nth(all, kindStream, 0), nth(all, kindStream, 1))
		}, `stream 0 is missing`},
		{"all streams left out", "", func(all, _ []section) []section { return all[:1] }, `the proof has no stream`},
		{"a stream twice", "", func(all, _ []section) []section {
			i := nth(all, kindStream, 1)
			return slices.Concat(all[:i], all[1:i])
		}, `stream 0 follows stream 0`},
		{"a stream under another number", "", func(all, _ []section) []section {
			i := nth(all, kindStream, 1)
			forged := slices.Concat(all[:i], []section{all[i]}, all[2:i])
			forged[i].body = bytes.Clone(all[i].body)
			return forged
		}, `is of stream 0`},
		{"the end cut off", "", func(all, _ []section) []section {
			// up to the first seal of the last stream
			return all[:nth(all[:], kindSeal, -1)]
		}, `no seal follows|uncovered`},
		{"the range made longer", "", func(all, _ []section) []section {
			return asks(all, func(q *Question) { q.Range.Until = at(40) })
		}, `uncovered`},
		{"the range begins earlier", "full", func(all, _ []section) []section {
			return asks(all, func(q *Question) { q.Range.Since = at(3) })
		}, `no index in the proof shows`},
		{"other filters", "indexed", func(all, _ []section) []section {
			return asks(all, func(q *Question) { q.Filter.Objects = []string{"hr.staff"} })
		}, `no index in the proof shows`},
		{"filters that indexes do not know", "indexed", func(all, _ []section) []section {
			return asks(all, func(q *Question) {
				q.Filter = query.Criteria{XIDs: []uint64{7}}
			})
		}, `no index in the proof shows`},
		{"indexes are relied on, but that is not said", "indexed", func(all, _ []section) []section {
			return asks(all, func(q *Question) { q.Full = true })
		}, `no index in the proof shows`},
		{"a block invented before left-out ones", "indexed", func(all, _ []section) []section {
			i := 1
			for all[i-1].kind != kindSeal || all[i].kind != kindLeftOut {
				i++
			}
			return slices.Insert(all, i, invented(all, i, &all[has(all, salary)]))
		}, `no seal follows block \d+, behind which`},
		{"a block invented at the end of a segment", "full", func(all, _ []section) []section {
			i := nth(all, kindSegment, 1) - 1 // its seal
			all[i] = invented(all, i, &all[has(all, salary)])
			return all
		}, `segment \d+ does not follow`},
		{"a seal at the end of a segment left out", "full", func(all, _ []section) []section {
			i := nth(all, kindSegment, 1) - 1
			return leaveOut(all, i, i+1)
		}, `no index in the proof shows`},
		{"the number of records changed", "indexed", func(all, _ []section) []section {
			i := 0
			for all[i].kind != kindLeftOut || all[i+1].kind != kindSeal {
				i++
			}
			binary.LittleEndian.PutUint64(all[i].body[8:], binary.LittleEndian.Uint64(all[i].body[8:])+1)
			return all
		}, `ends with record`},
		{"seals of another stream", "", func(all, _ []section) []section {
			return append(all[:nth(all, kindStream, 1)+1], all[nth(all[:nth(all, kindStream, 1)], kindSeal, -1)])
		}, `the seal of .* is of stream 0`},
		{"seals are asked for, and some left out", "indexed", func(all, _ []section) []section {
			return asks(all, func(q *Question) {
				q.Filter = query.Criteria{Kinds: []format.Kind{format.KindSeal}}
			})
		}, `no index in the proof shows`},
		{"two chains mixed", "", func(all, other []section) []section {
			// behind the block that matches, which stands before its seal
			i, j := has(all, salary), has(other, salary)
			return slices.Concat(all[:i+1], other[j+1:])
		}, `is not the one that was sealed|does not follow|found block|left out`},
		{"the seals of another run", "", func(all, _ []section) []section {
			for i := nth(all, kindSeal, -1); all[i].kind == kindSeal; i-- {
				all[i].body = bytes.Clone(all[i].body)
				binary.LittleEndian.PutUint64(all[i].body[56:], 2)
				resign(&all[i], private, seal.KeyID(public))
			}
			return all
		}, `cannot be of one stream`},
		{"a block of another chain", "", func(all, other []section) []section {
			i, j := has(all, salary), has(other, salary)
			all[i] = other[j]
			return all
		}, `found block|does not follow`},
		{"times shifted", "", func(all, _ []section) []section {
			i := has(all, salary)
			body := bytes.Clone(all[i].body)
			for _, at := range []int{40, 48, 56} {
				t := binary.LittleEndian.Uint64(body[at:])
				binary.LittleEndian.PutUint64(body[at:], t+3600*second)
			}
			all[i].body = rehash(body, before(all, i))
			return all
		}, `is not the one that was sealed`},
		{"the time of a seal shifted", "", func(all, _ []section) []section {
			i := nth(all, kindSeal, -1)
			t := binary.LittleEndian.Uint64(all[i].body[64:])
			binary.LittleEndian.PutUint64(all[i].body[64:], t+3600*second)
			return all
		}, `signature of the seal`},
		{"seals by another key", "", func(all, _ []section) []section {
			key := privateKey(9)
			for i := range all {
				if all[i].kind == kindSeal {
					resign(&all[i], key, seal.KeyID(key.Public().(ed25519.PublicKey)))
				}
			}
			return all
		}, `is by key .*, which is not trusted`},
		{"seals by another key, under the ID of the right one", "", func(all, _ []section) []section {
			for i := range all {
				if all[i].kind == kindSeal {
					resign(&all[i], privateKey(9), seal.KeyID(public))
				}
			}
			return all
		}, `is not that of key`},
		{"an older seal in the place of the last one", "", func(all, _ []section) []section {
			all[nth(all, kindSeal, -1)] = all[nth(all, kindSeal, 0)]
			return all
		}, `is of stream|is not the one that was sealed`},
		{"records of another session number", "", func(all, _ []section) []section {
			return asks(all, func(q *Question) { *q = Question{Record: "6b0202d9.fa1/25000"} })
		}, `does not have the record`},
		{"blocks left out up to the last number", "", func(all, _ []section) []section {
			i := nth(all, kindLeftOut, 0)
			all[i].body = bytes.Clone(all[i].body)
			binary.LittleEndian.PutUint64(all[i].body, 1<<64-1)
			return all
		}, `left out|place in the chain`},
	} {
		t.Run(test.name, func(t *testing.T) {
			for _, full := range []bool{false, true} {
				if test.only == "full" && !full || test.only == "indexed" && full {
					continue
				}
				clone := func(all []section) (c []section) {
					for _, s := range all {
						c = append(c, section{kind: s.kind, body: bytes.Clone(s.body)})
					}
					return c
				}
				forged := test.forge(clone(proofs[full]), clone(others[full]))
				if forged == nil {
					continue
				}
				r := checked(t, together(t, forged), Checks{})
				why := strings.Join(r.Problems, "\n")
				for _, u := range r.Uncovered {
					why += "\nuncovered: " + u
				}
				if r.Proved || !regexp.MustCompile(test.wants).MatchString(why) {
					t.Errorf("full %v: proved %v, complete %v: %s", full, r.Proved, r.Complete, why)
				}
			}
		})
	}
}

// before is the hash that the block in a section is chained to.
func before(all []section, i int) []byte {
	for i--; ; i-- {
		switch s := &all[i]; s.kind {
		case kindBlock:
			return s.body[72:104]
		case kindLeftOut:
			return s.body[16:]
		case kindSeal:
			return s.body[72:104]
		case kindSegment:
			return sha(s.body)
		}
	}
}

// invented is a block that follows in a chain, with the payload of another one.
func invented(all []section, i int, like *section) section {
	b := bytes.Clone(like.body)
	le := binary.LittleEndian
	block, record := uint64(0), uint64(0)
	switch last := &all[i-1]; last.kind {
	case kindSeal:
		block, record = le.Uint64(last.body[40:]), le.Uint64(last.body[48:])
	case kindBlock:
		block, record = number(last), le.Uint64(last.body[32:])+uint64(le.Uint32(last.body[16:]))-1
	}
	le.PutUint64(b[24:], block+1)
	le.PutUint64(b[32:], record+1)
	return section{kind: kindBlock, body: rehash(b, before(all, i))}
}

// Blocks that tell what the trail lacks cannot be left out, whatever the filter is.
func TestExceptionsCannotBeLeftOut(t *testing.T) {
	dir := small{extra: map[int]func(*writer, *trailtest.Session) []*trailtest.Record{
		15: func(w *writer, _ *trailtest.Session) []*trailtest.Record {
			return []*trailtest.Record{setting(w.Session, 15, "steno.log", "all", "all, -write", "server")}
		},
		35: func(w *writer, _ *trailtest.Session) []*trailtest.Record {
			return []*trailtest.Record{setting(w.Session, 35, "steno.log", "all", "all, -read", "server")}
		},
	}}.write(t)
	path, err := makeProof(t, dir, question(t, 30, 55, false, ofSalary), nil)
	if err != nil {
		t.Fatal(err)
	}
	if r := checked(t, path, Checks{}); !r.Proved || len(r.Exceptions) != 2 {
		t.Fatalf("%+v", r)
	}
	for _, change := range []string{"all, -write", "all, -read"} {
		all := apart(t, path)
		r := checked(t, together(t, hide(all, has(all, change))), Checks{})
		if r.Proved || !strings.Contains(strings.Join(r.Problems, ""), "no index in the proof shows") {
			t.Errorf("%s: %+v", change, r)
		}
	}
}

// A question that does not mean what it looks like is none.
func TestQuestionsMeanWhatTheySay(t *testing.T) {
	const since = `"Since":"2026-11-21T21:00:00.000000Z","Until":"2026-11-21T22:00:00.000000Z"`
	if _, err := decodeQuestion([]byte(`{"filter":{` + since + `,"Not":{"Users":["bob"]}}}`)); err != nil {
		t.Error(err)
	}
	for _, q := range []string{
		`{}`, `[]`, `{"record":"7"}`, `{"filter":{"Since":"yesterday","Until":"2026-11-21T22:00:00.000000Z"}}`,
		`{"filter":{` + since + `,"Unknown":["x"]}}`, `{"filter":{` + since + `,"Zone":{}}}`, `{"filter":{` + since + `,"Grep":["("]}}`,
		`{"filter":{` + since + `,"Not":{"Failed":true}}}`, `{"filter":{` + since + `,"Not":{"Not":{"Users":["bob"]}}}}`, `{"filter":{` + since + `,"Not":{` + since + `}}}`,
		`{"record":"6b0202d9.fa1/25","filter":{` + since + `}}`, `{"record":"6b0202d9.fa1/25","full":true}`, `{"filter":{` + since + `}} x`,
		`{"filter":{"Until":"2026-11-21T22:00:00.000000Z"}}`, `{"filter":{"Since":"2026-11-21T22:00:00.000000Z","Until":"2026-11-21T22:00:00.000000Z"}}`,
		`{"filter":{` + since + `,"Users":"bob"}}`, `{"filter":{` + since + `,"Users":[7]}}`, `{"filter":{` + since + `,"Users":null}}`, `{"filter":{` + since + `,"":["x"]}}`,
		`{"filter":{` + since + `,"Failed":"yes"}}`, `{"filter":{` + since + `,"MinDuration":250}}`, `{"filter":{` + since + `,"MinDuration":"fast"}}`,
		`{"filter":{` + since + `,"Not":["Users"]}}`, `{"filter":{` + since + `,"XIDs":["x"]}}`, `{"filter":{` + since + `,"Kinds":["statemnt"]}}`, `{"filter":{` + since + `,"Fingerprints":["00000000000000ff"]}}`,
	} {
		if _, err := decodeQuestion([]byte(q)); err == nil {
			t.Error(q)
		}
	}
}

// Questions of earlier versions, whose values are written in other ways, are the same ones.
func TestQuestionsOfEarlierVersionsAreRead(t *testing.T) {
	const since = `"Since":"2026-11-21T21:00:00.000000Z","Until":"2026-11-21T22:00:00.000000Z"`
	for old, is := range map[string]string{
		`"Kinds":["STATEMENT"],"Classes":["Read","DDL"],"SQLStates":["42p01"]`: `"Kinds":["statement"],"Classes":["read","ddl"],"SQLStates":["42P01"]`,
		`"MinDuration":"1m30s"`:                                          `"MinDuration":"90s"`,
		`"MinDuration":"250","Failed":true`:                              `"MinDuration":"250ms","Failed":true`,
		`"Grep":["a"],"IgnoreCase":true`:                                 `"Grep":["(?i)a"]`,
		`"Not":{"Grep":["a"]},"IgnoreCase":true`:                         `"Not":{"Grep":["(?i)a"]}`,
		`"Not":{"Audited":["object"],"XIDs":["7"]}`:                      `"Not":{"Audited":["object"],"XIDs":["7"]}`,
		`"Clients":["10.0.0.0/8","[local]"],"Sessions":["6b0202d9.fa1"]`: `"Clients":["10.0.0.0/8","[local]"],"Sessions":["6b0202d9.fa1"]`,
	} {
		a, err := decodeQuestion([]byte(`{"filter":{` + since + `,` + old + `}}`))
		b, err2 := decodeQuestion([]byte(`{"filter":{` + since + `,` + is + `}}`))
		if err != nil || err2 != nil {
			t.Errorf("%s: %v, %v", old, err, err2)
			continue
		}
		var written, want map[string]any
		text, _ := a.MarshalJSON()
		if json.Unmarshal(text, &written) != nil || json.Unmarshal([]byte(`{"filter":{`+since+`,`+is+`}}`), &want) != nil || !reflect.DeepEqual(written, want) || !a.same(b) {
			t.Errorf("%s is written as %s, want %s", old, text, is)
		}
	}
}

// What is no part of a question that is proved is refused, not left out.
func TestNoProofOfWhatAQuestionCannotSay(t *testing.T) {
	within := query.Range{Since: at(1), Until: at(2)}
	for _, c := range []query.Criteria{{TopLevel: true}, {OffHours: time.UTC}, {Fingerprints: []uint64{7}}, {Not: &query.Criteria{Fingerprints: []uint64{7}}}} {
		if _, err := NewRangeQuestion(c, within, false); err == nil {
			t.Errorf("%+v", c)
		}
	}
	if _, err := NewRangeQuestion(query.Criteria{}, query.Always, false); err == nil {
		t.Error("a question without a range")
	}
}

// hide removes a block up to its seal, and the blocks that are left out before: those that
// are left out behind the seal are now said to begin there.
func hide(all []section, i int) []section {
	end := i
	for all[end].kind != kindLeftOut {
		end++
	}
	for all[i].kind != kindLeftOut {
		i--
	}
	return slices.Delete(all, i, end)
}

// takeLeftOut replaces sections by one that says that their blocks are left out.
func leaveOut(all []section, i, end int) []section {
	b := all[end-1].body
	var out bytes.Buffer
	w := &sectionWriter{out: &out, sum: newSum()}
	le := binary.LittleEndian
	w.leftOut(number(&all[end-1]), le.Uint64(b[32:])+uint64(le.Uint32(b[16:]))-1, [32]byte(b[72:104]))
	return slices.Concat(all[:i], []section{{kind: kindLeftOut, body: out.Bytes()[sectionSize:]}}, all[end:])
}

func resign(s *section, key ed25519.PrivateKey, id string) {
	one, err := seal.FromSigned(s.body[:signedSize], s.body[signedSize:signedSize+8], s.body[signedSize+8:])
	if err != nil {
		panic(err)
	}
	one.Key, one.Signature = id, ed25519.Sign(key, one.Bytes())
	var out bytes.Buffer
	w := &sectionWriter{out: &out, sum: newSum()}
	w.seal(one)
	s.body = out.Bytes()[sectionSize:]
}

// An index that the server only found when it started, behind the last seal, can have been
// put there by anybody.
func TestForgedIndexesExcludeNothing(t *testing.T) {
	write := func(run bool) string {
		return small{extra: map[int]func(*writer, *trailtest.Session) []*trailtest.Record{
			27: func(w *writer, _ *trailtest.Session) []*trailtest.Record {
				w.Hides = "salary"
				w.Index()
				w.Hides = ""
				if run {
					w.restarts(27.5)
				}
				return nil
			},
		}}.write(t)
	}
	for _, found := range []bool{false, true} {
		path, err := makeProof(t, write(found), question(t, 22, 26, false, ofSalary), nil)
		if err != nil {
			t.Fatal(err)
		}
		r := checked(t, path, Checks{})
		if !r.Proved || r.Matches != 1 {
			t.Fatalf("%+v", r)
		}
		all := apart(t, path)
		i := has(all, "hr.salary")
		if found {
			// all blocks of the segment are in the proof: leave out this one and the one before,
			// which follows a seal
			all = leaveOut(all, i-1, i+1)
		} else {
			all = hide(all, i)
		}
		r = checked(t, together(t, all), Checks{})
		// The server's own word counts, even if it is wrong.
		if !found && (!r.Proved || r.Matches != 0) || found && (r.Proved || !strings.Contains(strings.Join(r.Problems, ""), "no index in the proof shows")) {
			t.Errorf("found %v: %+v", found, r)
		}
	}
}

// A question of the one who checks must be the one that is answered.
func TestAnotherQuestionIsRefused(t *testing.T) {
	dir := small{}.write(t)
	q := question(t, 30, 50, false, ofSalary)
	path, err := makeProof(t, dir, q, nil)
	if err != nil {
		t.Fatal(err)
	}
	if r := checked(t, path, Checks{Question: question(t, 30, 50, true, ofSalary)}); !r.Complete {
		t.Errorf("%+v", r)
	}
	for _, other := range []*Question{
		question(t, 30, 51, false, ofSalary), question(t, 30, 50, false, nil), {Record: "6b0202d9.fa1/1"},
		question(t, 30, 50, false, func(o *query.Criteria) { ofSalary(o); o.Users = []string{"bob"} }),
	} {
		if r := checked(t, path, Checks{Question: other}); r.Proved || !strings.Contains(strings.Join(r.Problems, ""), "answers another question") {
			t.Errorf("%s: %+v", other, r)
		}
	}
	if r := checked(t, path, Checks{Full: true}); r.Proved {
		t.Errorf("--full: %+v", r)
	}
}

func TestAnchorsOfProofs(t *testing.T) {
	dir := small{}.write(t)
	path, err := makeProof(t, dir, question(t, 30, 50, false, ofSalary), nil)
	if err != nil {
		t.Fatal(err)
	}
	s, _ := seal.FromSigned(apart(t, path)[nth(apart(t, path), kindSeal, -1)].body[:signedSize], make([]byte, 8), make([]byte, 64))
	anchor := func(change func(a *seal.Anchor)) Checks {
		a := &seal.Anchor{Seal: *s, From: "anchors:1"}
		change(a)
		return Checks{Anchors: []*seal.Anchor{a}}
	}
	if r := checked(t, path, anchor(func(*seal.Anchor) {})); !r.Complete || r.Anchors != 1 {
		t.Errorf("%+v", r)
	}
	for name, change := range map[string]func(a *seal.Anchor){
		"hash": func(a *seal.Anchor) { a.Hash[3]++ }, "system": func(a *seal.Anchor) { a.SystemID++ }, "stream": func(a *seal.Anchor) { a.Stream++ },
	} {
		if r := checked(t, path, anchor(change)); r.Proved {
			t.Errorf("%s: %+v", name, r)
		}
	}
}

// Whatever the bytes are, the check ends, and nothing is proved that was not before.
func FuzzCheck(f *testing.F) {
	dir := small{}.write(f)
	for _, q := range []*Question{question(f, 22, 28, false, ofSalary), question(f, 26, 27, true, nil), {Record: "6b0202d9.fa1/25"}} {
		path, err := makeProof(f, dir, q, nil)
		if err != nil {
			f.Fatal(err)
		}
		b, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		path := filepath.Join(t.TempDir(), "proof")
		// with a right checksum, so that more than that is tried
		if n := len(b) - 32 - sectionSize; n >= headerSize && kind(b[n]) == kindEnd {
			copy(b[n+sectionSize:], sha(b[:n]))
		}
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
		r, err := Check(context.Background(), path, Checks{Keys: trusted})
		if err == nil && r.Proved && r.Question.Record == "" && r.Matches == 0 {
			// the trail has a read each minute, by alice
			since, until := r.Question.Range.Since, r.Question.Range.Until
			if len(r.Question.conditions()) == 0 && since < at(80) && until > at(25) && until/60e6 > since/60e6 {
				t.Errorf("a forged proof: %+v", r)
			}
		}
	})
}
