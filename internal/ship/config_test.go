package ship_test

import (
	"strings"
	"testing"

	"github.com/pg-steno/pg_steno/internal/ship"
)

func TestConfigurationsAreCheckedStrictly(t *testing.T) {
	const good = "trail: /t\nsinks:\n  a:\n    to: test:x\n"
	for _, c := range []struct{ text, wants string }{
		{good, ""},
		{good + "    filter: {only: {class: [write, ddl], user: alice}, failed: true}\n    format: json\n", ""},
		{good + "    batch: {wait: 2s, bytes: 4MB}\n", ""},
		{"", "empty"},
		{"sinks: {}", "sinks: there is none"},
		{"trail: /t\n", "sinks: there is none"},
		{good + "tral: /x\n", "line 5: tral: there is no such key; nearest: trail"},
		{good + "    formt: json\n", "line 5: sinks.a.formt: there is no such key; nearest: format"},
		{good + "    batch: {size: 3}\n", "line 5: sinks.a.batch.size: there is no such key; nearest: bytes"},
		{good + "    batch: {wait: soon}\n", `sinks.a.batch.wait: "soon" is not a time`},
		{good + "    batch: {bytes: 1GB}\n", "batch.bytes must be at most"},
		{good + "    format: xml\n", "format: test takes blocks, json"},
		{good + "    filter: {only: {clas: [read]}}\n    format: json\n", "nearest: class"},
		{good + "    filter: {only: {class: [reed]}}\n    format: json\n", "filter.only.class"},
		{good + "    filter: {failed: true}\n", "blocks are shipped whole"},
		{good + "    fields: [tme]\n    format: json\n", `unknown field "tme"`},
		{good + "    to: test:y\n", "it is there twice"},
		{good + "  a:\n    to: test:y\n", "it is there twice"},
		{good + "  A:\n    to: test:y\n", "lower-case letters"},
		{good + "  b:\n    to: test:y\n    slot: ship_a\n", "sink a has slot ship_a, too"},
		{good + "  b:\n    to: s9://x\n", "there is no sink for s9:"},
		{good + "  b:\n    to: test://u:secret@x\n", "a password does not belong into a URL"},
		{good + "  b:\n    format: json\n", "to is missing"},
		{good + "  b: test:x\n", "here must be keys"},
		{good + "metrics: 0.0.0.0:9\n", "not a loopback address"},
		{good + "metrics: localhost:9\n", ""},
		{good + "    from: middle\n", "neither start nor end"},
		{good + "    tls: {cert: /x}\n", "belong together"},
		{good + "    tls: {ca: /does/not/exist}\n", "tls.ca"},
		{"sinks: [", "line 1"},
		{good + "    filter: {only: {class: write, user: }}\n    format: json\n", "filter.only.user: it has no value"},
		{good + "    batch: {records: 2147483648}\n", "batch.records must be between 1 and 200000"},
	} {
		_, err := ship.Parse([]byte(c.text), kindOf(newReceived(nil)))
		switch {
		case c.wants == "" && err != nil:
			t.Errorf("%q: %v", c.text, err)
		case c.wants != "" && (err == nil || !strings.Contains(err.Error(), c.wants)):
			t.Errorf("%q:\n got %v\nwant %s", c.text, err, c.wants)
		case err != nil && strings.Contains(err.Error(), "secret"):
			t.Errorf("%q: the error has the password: %v", c.text, err)
		}
	}
}
