package proof

import (
	"context"
	"strings"
	"testing"

	"github.com/pg-steno/pg_steno/internal/trail"
	"github.com/pg-steno/pg_steno/internal/trail/trailtest"
)

// An answer that looks at relations says when relations were not recorded, and only then.
func TestAnswersSayWhichSettingsHideThem(t *testing.T) {
	off := func(name, to string, of func(w *writer) *trailtest.Session, source string) small {
		return small{extra: map[int]func(*writer, *trailtest.Session) []*trailtest.Record{35: func(w *writer, _ *trailtest.Session) []*trailtest.Record {
			return []*trailtest.Record{setting(of(w), 35, name, "on", to, source)}
		}}}
	}
	server := func(w *writer) *trailtest.Session { return w.Session }
	bob := func(*writer) *trailtest.Session { return client(77, "bob") }
	for _, one := range []struct {
		name string
		small
		needs Needs
		wants string
	}{
		{"nothing is hidden", small{}, Needs{Objects: true, Texts: true}, ""},
		{"relations, from the start", small{settings: []string{"steno.log_relation", "off"}}, Needs{Objects: true}, `relations of statements were not recorded throughout: steno.log_relation = "off"`},
		{"relations, but texts are asked for", small{settings: []string{"steno.log_relation", "off"}}, Needs{Texts: true}, ""},
		{"texts", small{settings: []string{"steno.log_statement", "off"}}, Needs{Texts: true}, `steno.log_statement = "off"`},
		{"nothing is looked at", small{settings: []string{"steno.log_statement", "off"}}, Needs{}, ""},
		{"since a reload", off("steno.log_relation", "off", server, "server"), Needs{Objects: true}, "since "},
		{"of a session", off("steno.log_relation", "off", bob, "session"), Needs{Objects: true}, `of user "bob" were not recorded in session 6b0202d9.4d (`},
		{"failures", small{settings: []string{"log_min_messages", "panic"}}, Needs{Failures: true}, `statements that failed before they were planned, and failed logins, were not recorded throughout: log_min_messages = "panic"`},
		{"failures that are logged", small{settings: []string{"log_min_messages", "error"}}, Needs{Failures: true}, ""},
		{"other settings", small{settings: []string{"steno.log", "none"}}, Needs{Objects: true}, ""},
	} {
		t.Run(one.name, func(t *testing.T) {
			tr, err := trail.Open(one.small.write(t))
			if err != nil {
				t.Fatal(err)
			}
			var said []string
			for _, err := range FindOmissions(context.Background(), tr.Index(), at(30), at(50), one.needs) {
				said = append(said, err.Error())
			}
			switch text := strings.Join(said, "; "); {
			case one.wants == "" && text != "", !strings.Contains(text, one.wants), len(said) > 1:
				t.Errorf("%q, want %q", text, one.wants)
			}
		})
	}
}
