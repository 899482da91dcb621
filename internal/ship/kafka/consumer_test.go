package kafka_test

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// consume returns all messages of a topic, by partition, in order.
func (s *server) consume(t *testing.T, topic string) map[int32][]*kgo.Record {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	ends, err := s.admin.ListEndOffsets(ctx, topic)
	if err != nil {
		t.Fatal(err)
	}
	client, err := kgo.NewClient(kgo.SeedBrokers(s.open), kgo.ConsumeTopics(topic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	all, missing := map[int32][]*kgo.Record{}, int64(0)
	for _, end := range ends[topic] {
		missing += end.Offset // nothing is deleted
	}
	for missing > 0 {
		fetched := client.PollFetches(ctx)
		if err := fetched.Err(); err != nil {
			t.Fatal(err)
		}
		fetched.EachRecord(func(r *kgo.Record) {
			all[r.Partition] = append(all[r.Partition], r)
			missing--
		})
	}
	return all
}

// rebuilt is what a consumer knows of a stream. It is written from format/KAFKA.md alone.
type rebuilt struct {
	partition int32
	files     map[string][]byte // by their paths in the trail
	segment   string            // path of the last segment that was announced
	next      uint64            // number of the next block
	chains    map[uint64]string
	previous  []byte // chain hash that the next block continues
	parts     map[string]map[int][]byte
	repeats   int
	records   uint64
}

// rebuild makes trails out of messages: by the system identifier and the stream. It fails if a block is missing, comes too
// early, or is another one than its headers say.
func rebuild(t *testing.T, messages map[int32][]*kgo.Record) map[string]*rebuilt {
	t.Helper()
	streams := map[string]*rebuilt{}
	for _, partition := range slices.Sorted(maps.Keys(messages)) {
		for _, m := range messages[partition] {
			if err := takeMessage(streams, m); err != nil {
				t.Fatalf("partition %d, offset %d: %v", m.Partition, m.Offset, err)
			}
		}
	}
	return streams
}

func headersOf(m *kgo.Record) map[string]string {
	all := map[string]string{}
	for _, h := range m.Headers {
		all[h.Key] = string(h.Value)
	}
	return all
}

func number(h map[string]string, key string) uint64 {
	n, err := strconv.ParseUint(h[key], 10, 64)
	if err != nil {
		panic(fmt.Sprintf("header %s: %q", key, h[key]))
	}
	return n
}

func takeMessage(streams map[string]*rebuilt, m *kgo.Record) error {
	h := headersOf(m)
	if key := h["steno-system-id"] + "/" + h["steno-stream"]; string(m.Key) != key || h["steno-format"] != "1" {
		return fmt.Errorf("key %q, headers %q", m.Key, h)
	}
	s := streams[string(m.Key)]
	if s == nil {
		s = &rebuilt{partition: m.Partition, files: map[string][]byte{}, next: 1, chains: map[uint64]string{},
			parts: map[string]map[int][]byte{}}
		streams[string(m.Key)] = s
	}
	if s.partition != m.Partition {
		return fmt.Errorf("%s is in partition %d, too", m.Key, s.partition)
	}
	path := fmt.Sprintf("%s/%010d.steno", h["steno-stream"], number(h, "steno-segment"))
	if h["steno-kind"] == "segment" {
		return s.takeSegment(path, m.Value, number(h, "steno-block"))
	}
	value := m.Value
	if parts := h["steno-parts"]; parts != "" {
		if value = s.takePart(h, m.Value); value == nil {
			return nil
		}
	}
	if s.segment != path {
		return fmt.Errorf("a block of %s, but the last segment is %s", path, s.segment)
	}
	return s.takeBlock(path, h, value)
}

func (s *rebuilt) takeSegment(path string, header []byte, first uint64) error {
	s.segment = path
	if had := s.files[path]; had != nil {
		if !bytes.HasPrefix(had, header) {
			return fmt.Errorf("segment %s has two headers", path)
		}
		return nil
	}
	if first != s.next || first != binary.LittleEndian.Uint64(header[48:]) {
		return fmt.Errorf("segment %s begins with block %d, and not with %d", path, first, s.next)
	}
	hash := sha256.Sum256(header)
	s.files[path], s.previous = slices.Clone(header), hash[:]
	return nil
}

func (s *rebuilt) takePart(h map[string]string, value []byte) (whole []byte) {
	id := h["steno-sha256"] + "/" + h["steno-parts"]
	if s.parts[id] == nil {
		s.parts[id] = map[int][]byte{}
	}
	parts := s.parts[id]
	parts[int(number(h, "steno-part"))] = value
	if len(parts) < int(number(h, "steno-parts")) {
		return nil
	}
	delete(s.parts, id)
	for i := range len(parts) {
		whole = append(whole, parts[i+1]...)
	}
	if sum := sha256.Sum256(whole); hex.EncodeToString(sum[:]) != h["steno-sha256"] {
		panic("the parts are not those of the whole")
	}
	return whole
}

func (s *rebuilt) takeBlock(path string, h map[string]string, image []byte) error {
	n := number(h, "steno-block")
	if n != binary.LittleEndian.Uint64(image[24:]) || number(h, "steno-records") != uint64(binary.LittleEndian.Uint32(image[16:])) {
		return fmt.Errorf("block %d is another one than its headers say", n)
	}
	if n < s.next {
		if s.repeats++; s.chains[n] != h["steno-chain"] {
			return fmt.Errorf("block %d is repeated otherwise", n)
		}
		return nil
	}
	if n > s.next {
		return fmt.Errorf("block %d comes before block %d", n, s.next)
	}
	chain := sha256.Sum256(slices.Concat(s.previous, image[:72], image[112:]))
	if hex.EncodeToString(chain[:]) != h["steno-chain"] || !bytes.Equal(chain[:], image[72:104]) {
		return fmt.Errorf("block %d does not continue the chain", n)
	}
	if number(h, "steno-offset") != uint64(len(s.files[path])) {
		return fmt.Errorf("block %d is at %d, and not at %s", n, len(s.files[path]), h["steno-offset"])
	}
	for name, at := range map[string]int{"steno-first-time": 40, "steno-last-time": 56} {
		micros := int64(binary.LittleEndian.Uint64(image[at:]))
		epoch := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)
		if want := epoch.Add(time.Duration(micros) * time.Microsecond).Format("2006-01-02T15:04:05.000000Z"); h[name] != want {
			return fmt.Errorf("block %d: %s is %s, and not %s", n, name, h[name], want)
		}
	}
	s.files[path] = append(s.files[path], image...)
	s.previous, s.chains[n], s.next = chain[:], h["steno-chain"], n+1
	s.records += number(h, "steno-records")
	return nil
}

// compare compares what was rebuilt with the trail, byte for byte, and returns how many blocks came more than once.
func compare(t *testing.T, trail string, streams map[string]*rebuilt) (repeats int) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(trail, "*", "*.steno"))
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	all := map[string][]byte{}
	for _, s := range streams {
		maps.Copy(all, s.files)
		repeats += s.repeats
	}
	for _, file := range files {
		want, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		path, _ := filepath.Rel(trail, file)
		got := all[path]
		if empty := len(want) <= 208 && got == nil; !empty && !bytes.Equal(got, want) { // no block, no message
			t.Errorf("%s has %d bytes, but %d were rebuilt, or they differ", path, len(want), len(got))
		}
		delete(all, path)
	}
	if len(all) > 0 {
		t.Errorf("segments that the trail does not have: %q", slices.Sorted(maps.Keys(all)))
	}
	return repeats
}

// linesOf returns the values of messages by their keys, in order, without repeats.
func linesOf(t *testing.T, messages map[int32][]*kgo.Record) map[string][]string {
	t.Helper()
	all, seen, at := map[string][]string{}, map[string]bool{}, map[string]int32{}
	for _, partition := range slices.SortedFunc(maps.Keys(messages), cmp.Compare) {
		for _, m := range messages[partition] {
			key := string(m.Key)
			if was, has := at[key]; has && was != partition {
				t.Fatalf("%s is in partitions %d and %d", key, was, partition)
			}
			if at[key] = partition; !seen[string(m.Value)] {
				seen[string(m.Value)] = true
				all[key] = append(all[key], string(m.Value))
			}
		}
	}
	return all
}
