package render

import (
	"strings"
	"testing"

	logs "go.opentelemetry.io/proto/slim/otlp/collector/logs/v1"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
)

// allLines are lines of a format that have all of its fields.
func allLines(t testing.TB, f Format) string {
	t.Helper()
	r := New(f, Options{Servers: mixedServers()})
	return renderAt(t, mixed, r, everything()...) + renderAt(t, mixed, r, random(200)...) + goldenLines(t, f) + commandLines(t, f) + timed(t, f)
}

// TestOTelLinesAreOTLP reads lines with the official definition of the protocol, which refuses unknown fields, and
// writes them again: nothing may be lost.
func TestOTelLinesAreOTLP(t *testing.T) {
	for line := range strings.Lines(allLines(t, OTel)) {
		var request, again logs.ExportLogsServiceRequest
		if err := protojson.Unmarshal([]byte(line), &request); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		binary, err := proto.Marshal(&request)
		if err != nil {
			t.Fatal(err)
		}
		if err := proto.Unmarshal(binary, &again); err != nil || !proto.Equal(&request, &again) {
			t.Fatalf("%v: %s", err, line)
		}
		records := 0
		for _, resource := range request.ResourceLogs {
			for _, scope := range resource.ScopeLogs {
				for _, record := range scope.LogRecords {
					records++
					if record.SeverityText != map[int32]string{9: "INFO", 13: "WARN", 17: "ERROR"}[int32(record.SeverityNumber)] {
						t.Errorf("%s is not %s: %s", record.SeverityText, record.SeverityNumber, line)
					}
				}
			}
		}
		if records != 1 {
			t.Errorf("%d records: %s", records, line)
		}
	}
	wrong := strings.Replace(timed(t, OTel), `"severityNumber"`, `"severity"`, 1)
	if err := protojson.Unmarshal([]byte(wrong), &logs.ExportLogsServiceRequest{}); err == nil {
		t.Errorf("a field that the protocol does not have is accepted: %s", wrong)
	}
}
