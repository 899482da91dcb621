// Names that may look like others, in formats that show values as they are.

package query

import (
	"fmt"
	"sync"

	"github.com/pg-steno/pg_steno/internal/format"
	"github.com/pg-steno/pg_steno/internal/render"
)

// mostLookalikes bounds the names that a Lookalikes reports.
const mostLookalikes = 20

// Lookalikes collects names whose words mix scripts, such as a Latin name with a Cyrillic letter. The zero
// value is ready for use; nil collects nothing. Several goroutines may use it.
type Lookalikes struct {
	mu  sync.Mutex
	all []error
}

// LookalikeError says that a name mixes scripts.
type LookalikeError struct{ What, Name string }

func (e *LookalikeError) Error() string {
	return fmt.Sprintf("%s %s mixes scripts: it may look like another name", e.What, render.Quoted(e.Name))
}

// Check checks a name.
func (l *Lookalikes) Check(what string, name []byte) {
	if l == nil || !render.MixesScripts(name) {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, known := range l.all {
		if k := known.(*LookalikeError); k.Name == string(name) && k.What == what {
			return
		}
	}
	if len(l.all) < mostLookalikes {
		l.all = append(l.all, &LookalikeError{what, string(name)})
	}
}

// Record checks the names in a record.
func (l *Lookalikes) Record(r *format.Record) {
	if l == nil {
		return
	}
	for _, one := range []struct {
		what string
		key  format.Key
	}{
		{"user", format.KeyUser}, {"role", format.KeyRole}, {"application user", format.KeyAppUser},
		{"database", format.KeyDatabase},
		{"application", format.KeyApplication}, {"identity", format.KeyIdentity},
	} {
		l.Check(one.what, r.Session.Fact(one.key))
	}
	if r.Shape == nil {
		return
	}
	for i := range r.Shape.Relations {
		l.Check("relation", r.Shape.Relations[i].Name)
	}
	for i := range r.Shape.Objects {
		l.Check("object", r.Shape.Objects[i].Name)
	}
}

// Errs returns the warnings, each once.
func (l *Lookalikes) Errs() (all []error) {
	if l == nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	all, l.all = l.all, nil
	return all
}
