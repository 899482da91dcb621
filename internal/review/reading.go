// Takes the words of a statement about grants one after the other, and notes why it cannot be applied.

package review

import (
	"cmp"
	"fmt"
	"slices"
)

// reading is SQL while it is applied to grants.
type reading struct {
	*Grants
	db            string
	session, role string // of SET SESSION AUTHORIZATION and SET ROLE; empty: the superuser who runs the script
	words         []word
	problem       string            // why the statement cannot be applied
	places        map[[2]string]int // indexes of relations, by database and name

	localRole bool // SET LOCAL ROLE: it ends with the transaction
	outerRole string

	inTransaction bool   // the statements of a transaction are being applied
	mayFailReason string // why the server may have refused an earlier statement, although the grants allow it
}

// current returns the role with whose rights statements run; empty: a superuser.
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

// failUnexpected notes that something else was expected.
func (r *reading) failUnexpected(wanted string) {
	found := "the statement ends"
	if len(r.words) > 0 {
		found = fmt.Sprintf("there is %q", r.words[0].text)
	}
	r.fail("%s where %s was expected", found, wanted)
}

// failUnknown notes an object that is not among the grants.
func (r *reading) failUnknown(name string) {
	r.fail("not among the grants of database %q: %s", r.db, name)
}

// mayFail notes a statement that the server may refuse for a reason that the grants do not show. What it revokes
// counts as revoked. Nothing that grants may follow it, or be in one transaction with it, because it may never be
// reached.
func (r *reading) mayFail(what string) {
	if r.inTransaction {
		r.fail("the server may refuse it, and then all that is in its transaction: %s", what)
	}
	r.mayFailReason = cmp.Or(r.mayFailReason, what)
}

// checkReached refuses a statement that grants something, if it may never be reached.
func (r *reading) checkReached() {
	if r.mayFailReason != "" {
		r.fail("it gives something, and is not reached if a statement before it fails: %s", r.mayFailReason)
	}
}

// skip drops the next word, if there is one: the last name may be an empty one in quotes.
func (r *reading) skip() {
	if len(r.words) > 0 {
		r.words = r.words[1:]
	}
}

// take takes the next word, and returns true, if it is one of these.
func (r *reading) take(words ...string) bool {
	if len(r.words) > 0 && slices.ContainsFunc(words, r.words[0].is) {
		r.words = r.words[1:]
		return true
	}
	return false
}

// takeAll takes these words, and returns true, if they come next in this order.
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

// takeName takes a name and returns it without quotes.
func (r *reading) takeName() string {
	if len(r.words) == 0 || !r.words[0].isName() && !r.words[0].isString {
		return ""
	}
	w := r.words[0]
	switch {
	case w.isString:
		r.fail("a string is no name")
	case !w.isPlainName():
		r.fail("%s is a keyword: write the name in double quotes", w.text)
	}
	r.skip()
	return w.text
}

// takeQualifiedName takes a name with or without a schema, and returns it as SQL writes it, with the schema.
func (r *reading) takeQualifiedName() string {
	first := r.takeName()
	if first == "" {
		return ""
	}
	if r.take(".") {
		return QuoteName(first) + "." + QuoteName(r.takeName())
	}
	return "public." + QuoteName(first)
}

// currentDatabase returns the database that statements are about.
func (r *reading) currentDatabase() *Database {
	if d := r.database(r.db); d != nil {
		return d
	}
	return &Database{Name: r.db}
}
