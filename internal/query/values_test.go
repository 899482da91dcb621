package query

import (
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pg-steno/pg_steno/internal/format"
	"github.com/pg-steno/pg_steno/internal/trail/trailtest"
)

func patterns(texts ...string) []*regexp.Regexp   { return trailtest.Values(regexp.Compile, texts...) }
func clients(texts ...string) []Client            { return trailtest.Values(ParseClient, texts...) }
func sessions(texts ...string) []format.SessionID { return trailtest.Values(ParseSession, texts...) }
func least(text string) *time.Duration            { return &trailtest.Values(ParseDuration, text)[0] }

// ignoringCase are criteria whose patterns make no difference between upper and lower case.
func ignoringCase(c Criteria) Criteria {
	if err := c.IgnoreCase(); err != nil {
		panic(err)
	}
	return c
}

// TestValuesAreWrittenAsTheyAreRead: what a list has, another one gets from its texts.
func TestValuesAreWrittenAsTheyAreRead(t *testing.T) {
	for name, texts := range map[string][]string{
		"kind": {"statement", "auth_failed"}, "class": {"read", "misc_set"}, "command": {"CREATE TABLE"}, "object": {"hr.*", `"a,b"`},
		"audited": {"session", "object", "mandatory", "rule"}, "user": {"alice", ""}, "app-user": {"a, b"}, "identity": {"CN=a"}, "app-context": {"r 1"},
		"database": {"hr"}, "application": {"psql"}, "role": {"owner"}, "session": {"6b0202d9.fa1", "0.1"},
		"client": {"[local]", "10.0.0.1", "10.0.0.1:5", "10.0.0.0/8", "[2001:db8::7]:40000"}, "xid": {"7", "18446744073709551615"},
		"sqlstate": {"42501", "28"}, "grep": {"a|b", "(?i)x"}, "fingerprint": {"00000000000000ff", "ffffffffffffffff"},
	} {
		i := slices.IndexFunc(lists, func(l List) bool { return l.Name == name })
		var c Criteria
		if err := lists[i].Add(&c, texts...); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if got := lists[i].Values(&c); !slices.Equal(got, texts) {
			t.Errorf("%s: %q, want %q", name, got, texts)
		}
		for k := range lists {
			if k != i && len(lists[k].Values(&c)) > 0 {
				t.Errorf("%s are also values of %s", name, lists[k].Name)
			}
		}
	}
}

// TestErrorsNameTheValue: and no flag, which is not known here.
func TestErrorsNameTheValue(t *testing.T) {
	for name, texts := range map[string][]string{
		"kind": {"statemnt"}, "class": {"reed"}, "audited": {"why"}, "session": {"x", "", "6b0202d9", "6B0202D9.fa1", "6b0202d9.fa1x", "7fffffffffffffff.1"},
		"client": {"nowhere", "", "10.0.0.0/33"}, "xid": {"", "0", "-1", "x", "18446744073709551616"}, "sqlstate": {"4250", "42 01", ""},
		"grep": {"(", "a)(b"}, "fingerprint": {"ff"},
	} {
		for _, text := range texts {
			i := slices.IndexFunc(lists, func(l List) bool { return l.Name == name })
			var c Criteria
			err := lists[i].Add(&c, text)
			if err == nil || !strings.Contains(err.Error(), text) || strings.Contains(err.Error(), "--") || len(lists[i].Values(&c)) > 0 {
				t.Errorf("%s %q: %v", name, text, err)
			}
		}
	}
	for _, text := range []string{"fast", "-5ms", " ", "1 month"} {
		if _, err := ParseDuration(text); err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestDurationsAreWrittenAsTheyAreRead(t *testing.T) {
	for in, want := range map[string]string{"250": "250ms", "1m30s": "90s", "0.249999s": "249999us", "0": "0s", "2h": "7200s", "1.5ms": "1500us"} {
		if got := DurationText(*least(in)); got != want || *least(got) != *least(in) {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}

func TestRangesHaveTime(t *testing.T) {
	if _, err := NewRange(5, 6); err != nil {
		t.Error(err)
	}
	for _, r := range []Range{{5, 5}, {6, 5}, {format.MaxTime, format.MinTime}} {
		if _, err := NewRange(r.Since, r.Until); err == nil {
			t.Errorf("%v is accepted", r)
		}
	}
	if Always.IsBounded() || (Range{Since: 5, Until: format.MaxTime}).IsBounded() || !(Range{5, 6}).IsBounded() {
		t.Error("bounds")
	}
}
