// The words of a statement about grants: what is taken from them, and why a statement cannot be applied.

package review

import (
	"cmp"
	"fmt"
	"slices"
)

// reading is SQL that is applied to grants.
type reading struct {
	*Grants
	db            string
	session, role string // of SET SESSION AUTHORIZATION and SET ROLE; empty: who runs it, a superuser
	words         []word
	problem       string            // why the statement cannot be applied
	places        map[[2]string]int // of relations, by database and name

	local bool // SET LOCAL ROLE: it ends with the transaction
	outer string

	inTransaction bool   // the statements of one are being applied
	doubtful      string // why the server may have refused a statement, of which the grants show nothing
}

// current is the role with whose rights statements run; empty: a superuser.
func (r *reading) current() string {
	if r.role != "" {
		return r.role
	}
	return r.session
}

// fail notes why a statement cannot be applied.
func (r *reading) fail(format string, args ...any) {
	if r.problem == "" {
		r.problem = fmt.Sprintf(format, args...)
	}
}

// unexpected notes that something else was expected.
func (r *reading) unexpected(wanted string) {
	found := "the statement ends"
	if len(r.words) > 0 {
		found = fmt.Sprintf("there is %q", r.words[0].text)
	}
	r.fail("%s where %s was expected", found, wanted)
}

// unknown notes an object that is not among the grants.
func (r *reading) unknown(name string) {
	r.fail("not among the grants of database %q: %s", r.db, name)
}

// mayFail notes a statement that the server may refuse for a reason that the grants do not show. What it takes counts
// as taken. Nothing that gives may follow, or stand in a transaction with it: it may not take place.
func (r *reading) mayFail(what string) {
	if r.inTransaction {
		r.fail("the server may refuse it, and then all that is in its transaction: %s", what)
	}
	r.doubtful = cmp.Or(r.doubtful, what)
}

// gives refuses a statement that gives something, if it may not be reached.
func (r *reading) gives() {
	if r.doubtful != "" {
		r.fail("it gives something, and is not reached if a statement before it fails: %s", r.doubtful)
	}
}

// skip leaves out the next word, if there is one: a name in quotes may be empty, and the last.
func (r *reading) skip() {
	if len(r.words) > 0 {
		r.words = r.words[1:]
	}
}

// take takes the next word if it is one of these.
func (r *reading) take(words ...string) bool {
	if len(r.words) > 0 && slices.ContainsFunc(words, r.words[0].is) {
		r.words = r.words[1:]
		return true
	}
	return false
}

// takeAll takes these words, which follow each other.
func (r *reading) takeAll(words ...string) bool {
	if len(r.words) < len(words) {
		return false
	}
	for i, w := range words {
		if !r.words[i].is(w) {
			return false
		}
	}
	r.words = r.words[len(words):]
	return true
}

// name takes a name, as it is.
func (r *reading) name() string {
	if len(r.words) == 0 || !r.words[0].isName() && !r.words[0].str {
		return ""
	}
	w := r.words[0]
	switch {
	case w.str:
		r.fail("a string is no name")
	case !w.isPlainName():
		r.fail("%s is a keyword: write the name in double quotes", w.text)
	}
	r.skip()
	return w.text
}

// qualified takes a name that may have a schema, as SQL writes it.
func (r *reading) qualified() string {
	first := r.name()
	if first == "" {
		return ""
	}
	if r.take(".") {
		return QuoteName(first) + "." + QuoteName(r.name())
	}
	return "public." + QuoteName(first)
}

// here is the database that statements are about.
func (r *reading) here() *Database {
	if d := r.database(r.db); d != nil {
		return d
	}
	return &Database{Name: r.db}
}
