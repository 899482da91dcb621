package otlp

import (
	"bytes"
	"math/rand/v2"
	"strings"
	"testing"

	collector "go.opentelemetry.io/proto/slim/otlp/collector/logs/v1"
	logs "go.opentelemetry.io/proto/slim/otlp/logs/v1"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/pg-steno/pg_steno/internal/ship/recordtest"
	"github.com/pg-steno/pg_steno/internal/trail/trailtest"
)

// checkLine compares what a builder makes of a line, alone and after others, with what the official library does.
func checkLine(t *testing.T, line []byte) {
	t.Helper()
	var want, got collector.ExportLogsServiceRequest
	refused := protojson.Unmarshal(line, &want) != nil
	for i := range want.ResourceLogs { // what is empty is not sent
		if len(want.ResourceLogs[i].ScopeLogs) != 1 || len(want.ResourceLogs[i].ScopeLogs[0].LogRecords) != 1 || i > 0 {
			return
		}
	}
	b := newBuilder()
	if err := b.add(line); err != nil != refused {
		t.Fatalf("%v, refused %v: %.300q", err, refused, line)
	}
	if refused || len(want.ResourceLogs) == 0 {
		return
	}
	if err := b.add(line); err != nil {
		t.Fatal(err)
	}
	if err := proto.Unmarshal(b.bytes(), &got); err != nil {
		t.Fatal(err)
	}
	scope := want.ResourceLogs[0].ScopeLogs[0]
	scope.LogRecords = []*logs.LogRecord{scope.LogRecords[0], scope.LogRecords[0]}
	if !proto.Equal(&want, &got) {
		t.Fatalf("got  %v\nwant %v\nof %.2000q", &got, &want, line)
	}
}

// TestLinesBecomeWhatTheOfficialLibraryMakesOfThem: lines of all kinds of records, and such lines with a mistake.
func TestLinesBecomeWhatTheOfficialLibraryMakesOfThem(t *testing.T) {
	r := recordtest.Rand(t)
	var lines []string
	lines = append(lines, recordtest.Lines(recordtest.Events(t, r, 300, "otel"))...)
	office, varied := t.TempDir(), t.TempDir()
	trailtest.Office(t, office)
	trailtest.Varied(t, varied, 5)
	lines = append(lines, recordtest.Lines(recordtest.Of(t, office, "otel"))...)
	lines = append(lines, recordtest.Lines(recordtest.Of(t, varied, "otel"))...)
	quick := newBuilder()
	for i, line := range lines {
		checkLine(t, []byte(line))
		if len(line) < 5000 {
			for range 20 {
				checkLine(t, spoil(r, []byte(line)))
			}
		}
		if err := quick.add([]byte(line)); err != nil {
			t.Fatal(err)
		}
		if at := strings.Index(line, string(recordsBegin)) + len(recordsBegin); at > 0 {
			s := scanner{in: []byte(line), at: at}
			if s.message(nil, fieldLogRecords, &logRecord); s.failed {
				t.Fatalf("line %d takes the slow way, from byte %d on: %.2000q", i, s.at, line)
			}
		}
	}
	if len(lines) < 350 {
		t.Errorf("only %d lines", len(lines))
	}
}

// spoil changes a line in one place.
func spoil(r *rand.Rand, line []byte) []byte {
	line = bytes.Clone(line)
	at := r.IntN(len(line))
	switch r.IntN(4) {
	case 0:
		line[at] = byte(r.IntN(256))
	case 1:
		return append(line[:at], line[at+1:]...)
	case 2:
		pieces := []string{`\u`, `\ud83d`, `\ude00`, `"`, `\`, `{`, `}`, `[`, `]`, `,`, `null`, ` `, `\q`, "\x00", `-1`, `1e3`}
		return append(line[:at:at], append([]byte(pieces[r.IntN(len(pieces))]), line[at:]...)...)
	case 3:
		return line[:at]
	}
	return line
}
