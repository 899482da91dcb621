package flags

import (
	"maps"
	"os/exec"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/pg-steno/pg_steno/internal/format"
	"github.com/pg-steno/pg_steno/internal/query"
)

func TestWordsOfCommands(t *testing.T) {
	for in, want := range map[string]string{
		"alice": "alice", "it's": `'it'\''s'`, "a b;$(x)`y`": "'a b;$(x)`y`'", "\x1b[31m'\\\n": `$'\x1b[31m\'\\\x0a'`, "": "''", "ü": "'ü'", "a\u202eb": `$'a\xe2\x80\xaeb'`,
	} {
		if got := ShellWord(in); got != want {
			t.Errorf("%q: %s, want %s", in, got, want)
		}
	}
}

// TestEachFilterHasAFlag: and a command line that is made of criteria asks for the same. A filter that is added later is
// not forgotten.
func TestEachFilterHasAFlag(t *testing.T) {
	value := map[string]string{
		"kind": "note", "class": "ddl", "audited": "object", "session": "6b0202d9.fa1", "client": "10.0.0.0/8", "xid": "7", "sqlstate": "42501", "fingerprint": "00000000000000ff",
	}
	least := 90 * time.Second
	all := map[string]query.Criteria{
		"Failed": {Failed: true}, "MinDuration": {MinDuration: &least}, "TopLevel": {TopLevel: true}, "OffHours": {OffHours: time.UTC},
	}
	for _, l := range query.Lists() {
		text := value[l.Name]
		if text == "" {
			text = `it's "a", b`
		}
		var c query.Criteria
		not := query.Criteria{Not: &query.Criteria{}}
		for _, to := range []*query.Criteria{&c, not.Not} {
			if err := l.Add(to, text); err != nil {
				t.Fatal(err)
			}
		}
		all[l.Name], all["not-"+l.Name] = c, not
	}
	for name, asked := range all {
		if asked.Not == nil {
			asked.Not = &query.Criteria{}
		}
		line := strings.Join(CriteriaFlags(&asked), " ")
		if line == "" {
			t.Errorf("%s is not in command lines", name)
		}
		if got := parsed(t, line); !reflect.DeepEqual(got, &asked) {
			t.Errorf("%s: %s asks for %+v, want %+v", name, line, got, &asked)
		}
	}
	// what is tried is all that there is
	v := reflect.TypeFor[query.Criteria]()
	for i := range v.NumField() {
		field := v.Field(i).Name
		if !slices.ContainsFunc(slices.Collect(maps.Keys(all)), func(name string) bool { return !reflect.ValueOf(all[name]).Field(i).IsZero() }) {
			t.Errorf("%s has no flag", field)
		}
	}
}

// parsed are the criteria of a command line, which a shell reads.
func parsed(t *testing.T, line string) *query.Criteria {
	t.Helper()
	out, err := exec.Command("bash", "-c", `printf '%s\0' `+line).Output()
	if err != nil {
		t.Fatal(err)
	}
	cmd := &cobra.Command{}
	var f Filter
	f.Add(cmd)
	f.AddStatements(cmd)
	f.AddOffHours(cmd)
	if err := cmd.ParseFlags(strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00")); err != nil {
		t.Fatalf("%s: %v", line, err)
	}
	c, err := f.Criteria(time.UTC)
	if err != nil {
		t.Fatalf("%s: %v", line, err)
	}
	return c
}

func TestCommandLinesOfCat(t *testing.T) {
	cat := &Cat{Zone: "Europe/Berlin", Keys: query.KeyOptions{Files: []string{"my key"}, Commands: []string{"secret"}}, Trails: []string{"-odd", "/srv/trail"}}
	for want, one := range map[string]struct {
		query.Criteria
		query.Range
	}{
		"steno cat --time-zone Europe/Berlin --encryption-key-file 'my key' ./-odd /srv/trail": {Range: query.Always},
		"steno cat --since 2000-01-01T00:00:01Z --until 2000-01-01T00:00:01.5Z --user 'a\\,b' --not-class read,ddl --failed --time-zone Europe/Berlin --encryption-key-file 'my key' ./-odd /srv/trail": {
			query.Criteria{Users: []string{"a,b"}, Failed: true, Not: &query.Criteria{Classes: []format.Class{format.ClassRead, format.ClassDDL}}}, query.Range{Since: 1e6, Until: 15e5},
		},
	} {
		if got := cat.Line(&one.Criteria, one.Range); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

// TestErrorsNameTheFlag: libraries name the value only.
func TestErrorsNameTheFlag(t *testing.T) {
	for want, args := range map[string][]string{
		`--kind: "x" is not one of statement, `:                     {"--kind", "x"},
		`--not-client: "x" is not an address`:                       {"--not-client", "10.0.0.1,x"},
		`--grep: error parsing regexp: missing closing ): ` + "`(`": {"--grep", "("},
		`--min-duration: invalid duration "fast"`:                   {"--min-duration", "fast"},
		`--since: invalid time "soon"`:                              {"--since", "soon"},
		`--until: invalid time "then"`:                              {"--until", "then"},
		`--until 2h is not later than --since 1h`:                   {"--since", "1h", "--until", "2h"},
	} {
		cmd := &cobra.Command{}
		var r Records
		r.Add(cmd)
		if err := cmd.ParseFlags(args); err != nil {
			t.Fatal(err)
		}
		if _, _, err := r.Parse(time.Now(), nil); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%q: %v, want %s", args, err, want)
		}
	}
}
