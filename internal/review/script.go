// Writes a script that revokes unused privileges and memberships, for an administrator to read and run; nothing here
// runs it.

package review

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/pg-steno/pg_steno/internal/render"
)

// WriteScript writes the script.
func (a *Access) WriteScript(w io.Writer) error {
	b := bufio.NewWriter(w)
	fmt.Fprintf(b, "-- Privileges that no recorded statement needed, %s.\n", a.periodText)
	fmt.Fprintf(b, "-- Made by \"steno review access\". Nothing of it has been run. Run it with psql, as a "+
		"superuser,\n-- after reading it, and what the review says of what the trail cannot know:\n")
	for _, l := range a.Limits {
		fmt.Fprintf(b, "--   %s\n", render.Safe(l))
	}
	fmt.Fprint(b, scriptBegin)
	if a.recordsMissing {
		fmt.Fprint(b, incompleteGuard)
	}
	fmt.Fprint(b, "\n\\set ON_ERROR_STOP off\n")
	db := ""
	for _, group := range a.groups() {
		g := group[0]
		if g.db != db {
			if db = g.db; strings.ContainsAny(db, "\n\r") {
				fmt.Fprintf(b, "\n-- psql cannot connect to database %s\n\\quit\n", render.Safe(db))
			}
			fmt.Fprintf(b, "\n%s\n", connectTo(db))
		}
		a.revoke(b, group)
	}
	a.revokeMemberships(b)
	fmt.Fprint(b, scriptEnd)
	return b.Flush()
}

// revokeMemberships writes the statements for memberships. They come last, because some of the others change to a
// role that must still be able to use the schema.
func (a *Access) revokeMemberships(b *bufio.Writer) {
	for _, e := range a.idleMemberships {
		statement := "REVOKE " + QuoteName(e.Role) + " FROM " + QuoteName(e.Member)
		if e.Grantor != "" && a.policy.Version >= 160000 {
			statement += " GRANTED BY " + QuoteName(e.Grantor)
		}
		if a.passedOnRole(e) {
			fmt.Fprintf(b, "\n-- %s has granted this role on with ADMIN OPTION:\n-- %s;\n", render.Safe(e.Member),
				render.Safe(statement))
			continue
		}
		fmt.Fprintf(b, "\n-- never used in the period%s\n%s;\n", usedBefore(&e.used), statement)
	}
}

// scriptBegin makes psql stop at errors before the first REVOKE, and forget errors of earlier scripts.
const scriptBegin = `-- Each REVOKE is for itself: one that fails, because something was dropped or renamed since, does not keep the others
-- from being executed. psql shows its error, and ends with an error after the last one.
\set ON_ERROR_STOP on
\set LAST_ERROR_SQLSTATE 00000
`

// scriptEnd makes psql's exit status show that a statement has failed.
const scriptEnd = `
\set ON_ERROR_STOP on
SELECT :'LAST_ERROR_SQLSTATE' <> '00000' AS failed \gset
\if :failed
DO $$ BEGIN RAISE EXCEPTION 'some of the statements failed, see the errors above; all others were executed'; END $$;
\endif
`

// incompleteGuard ends a script before its first REVOKE, until somebody removes it.
const incompleteGuard = `
-- Part of the period was not recorded or cannot be read, so a privilege may have been used without a record.
-- If that does not matter, remove the next line.
DO $$ BEGIN RAISE EXCEPTION 'nothing was revoked: the trail lacks part of the period, see the comments of this script'; END $$;
`

// connectTo returns psql's command to connect to a database. psql would take a name with an equals sign, or one like
// a URI, for a connection string, which may lead to another server.
func connectTo(db string) string {
	if strings.Contains(db, "=") || strings.Contains(db, "://") {
		db = "dbname='" + strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(db) + "'"
		return `\connect -reuse-previous=on "` + strings.ReplaceAll(db, `"`, `""`) + `"`
	}
	return `\connect "` + strings.ReplaceAll(db, `"`, `""`) + `"`
}

func usedBefore(u *uses) string {
	if u.earlier.count == 0 {
		return ""
	}
	return fmt.Sprintf("; last use before it: %s (%s)", render.Time(u.earlier.last.Time), u.earlier.last)
}

// delegated returns 1 if another role than the owner granted the privilege, 0 otherwise, for sorting.
func (g *grant) delegated() int {
	if g.grantor != g.owner {
		return 1
	}
	return 0
}

// groups returns the unused grants in groups that one statement revokes: on one object, from one role, by one
// grantor. In each database, groups with a grantor other than the owner come first: they are revoked as that role,
// which may lose the use of the schema by later statements.
func (a *Access) groups() (all [][]*grant) {
	type key struct {
		db              string
		kind            objectKind
		object          string
		grantee, issuer string
	}
	at := map[key]int{}
	sorted := slices.Clone(a.unused)
	slices.SortStableFunc(sorted, func(x, y *grant) int {
		return cmp.Or(strings.Compare(x.db, y.db), y.delegated()-x.delegated())
	})
	for _, g := range sorted {
		k := key{g.db, g.kind, g.object, g.grantee, g.grantor}
		i, ok := at[k]
		if !ok {
			i = len(all)
			at[k] = i
			all = append(all, nil)
		}
		all[i] = append(all[i], g)
	}
	return all
}

// revoke writes the statement for a group.
func (a *Access) revoke(b *bufio.Writer, group []*grant) {
	g := group[0]
	var names, kept []string
	last := &uses{}
	whole := map[byte]bool{}
	for _, privilege := range group {
		last.earlier.join(privilege.used.earlier)
		if privilege.column == "" {
			whole[privilege.letter] = true
		}
	}
	for _, privilege := range group {
		name := privilegeName(privilege.letter)
		if privilege.column != "" {
			if whole[privilege.letter] {
				continue // revoked with that of the table
			}
			name += " (" + privilege.column + ")"
		}
		if a.passedOnPrivilege(privilege) {
			kept = append(kept, name)
		} else {
			names = append(names, name)
		}
	}
	word := strings.ToUpper(kindName(g))
	switch {
	case g.kind == onRelation:
		word = "TABLE"
	case g.kind == onDatabase:
		g = &grant{kind: g.kind, object: QuoteName(g.object), grantee: g.grantee, grantor: g.grantor, owner: g.owner}
	}
	grantee := "PUBLIC"
	if g.grantee != "" {
		grantee = QuoteName(g.grantee)
	}
	statement := func(names []string) string {
		return fmt.Sprintf("REVOKE %s ON %s %s FROM %s", strings.Join(names, ", "), word, g.object, grantee)
	}
	if len(kept) > 0 {
		fmt.Fprintf(b, "\n-- the role has granted these on to others:\n-- %s;\n", render.Safe(statement(kept)))
	}
	if len(names) == 0 {
		return
	}
	fmt.Fprintf(b, "\n-- never used in the period%s\n", usedBefore(last))
	if g.grantor != g.owner { // REVOKE removes only what the same role has granted
		fmt.Fprintf(b, "BEGIN;\nSET LOCAL ROLE %s;\n%s;\nCOMMIT;\n", QuoteName(g.grantor), statement(names))
	} else {
		fmt.Fprintf(b, "%s;\n", statement(names))
	}
}

// passedOnPrivilege reports whether the grantee has granted the privilege to others.
func (a *Access) passedOnPrivilege(g *grant) bool {
	return g.option && slices.ContainsFunc(a.policy.grants, func(o *grant) bool {
		return o.grantor == g.grantee && o.db == g.db && o.kind == g.kind && o.object == g.object &&
			o.letter == g.letter && o != g
	})
}

// passedOnRole reports whether the member has granted the role to others.
func (a *Access) passedOnRole(e *membership) bool {
	return e.Admin && slices.ContainsFunc(a.policy.memberships, func(o *membership) bool {
		return o.Role == e.Role && o.Grantor == e.Member
	})
}
