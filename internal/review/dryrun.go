// A dry run: the recorded statements with fewer grants.

package review

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/pg-steno/pg_steno/internal/format"
)

// dryRun lists the statements that a reduced set of grants would have refused.
func (a *access) dryRun(reduced *policy, lacking bool) *Section {
	s := &Section{
		Key: "dry_run", Title: "Dry run: statements that the reduced grants would have refused", Empty: a.nothingFails(lacking),
		Note:    `"may fail": the record does not tell whether the statement needs it. Statements of one shape are one line.`,
		Columns: []string{"verdict", "user", "role", "database", "reason", "statements", "records", "last_record", "text"},
	}
	for _, st := range a.found.statements {
		count := st.fine
		if st.started {
			count = st.worked.count // they had not ended
		}
		if st.earlier || count == 0 || !a.wanted(st.role) {
			continue
		}
		v, why := a.tried(a.now(st), reduced)
		if v == allowed {
			continue
		}
		word := "fails"
		if v == uncertain {
			word = "may fail"
		}
		var records []string
		for _, id := range st.early {
			records = append(records, id.String())
		}
		s.add(word, st.user, st.role, st.db, why, count, records, st.worked.last, st.text)
	}
	slices.SortStableFunc(s.Rows, func(a, b []any) int {
		if a[0] == b[0] {
			return 0
		} else if a[0] == "fails" {
			return -1
		}
		return 1
	})
	return s
}

// nothingFails is what a dry run says if no statement would have been refused.
func (a *access) nothingFails(lacking bool) string {
	of := ""
	if len(a.Roles) > 0 {
		of = " of these roles"
	}
	if lacking {
		return "None of the statements" + of + " that were recorded; part of the period was not recorded, or cannot be read: see below."
	}
	return "None: every recorded statement" + of + " would have been allowed."
}

// now is a statement with the names that its role and what it uses have now.
func (a *access) now(s *statement) *statement {
	variants := a.renames.variants(s)
	for _, v := range variants {
		known := a.policy.roles[v.role] != nil
		for i := range v.relations {
			r := a.policy.inside[v.db].relation(v.relations[i].name)
			known = known && r != nil && (v.of != nil || r.hasColumns(&v.relations[i]))
		}
		for _, f := range v.executes {
			in := a.policy.inside[v.db]
			known = known && in != nil && in.functions[f] != nil
		}
		if known {
			return a.presentColumns(v)
		}
	}
	return s
}

func (r *relation) hasColumns(used *usedRelation) bool {
	for _, columns := range used.columns {
		for _, c := range columns {
			if len(r.Columns) > 0 && r.lacks(c) {
				return false
			}
		}
	}
	return true
}

// lacks says that a relation has no column with this name.
func (r *relation) lacks(column string) bool {
	return column != format.WholeRow && !systemColumn(column) && !slices.Contains(r.Columns, column)
}

// presentColumns leaves out names that columns do not have any more.
func (a *access) presentColumns(s *statement) *statement {
	if s.of == nil {
		return s
	}
	for i := range s.relations {
		r := a.policy.inside[s.db].relation(s.relations[i].name)
		if len(r.Columns) == 0 {
			continue
		}
		for access, columns := range s.relations[i].columns {
			s.relations[i].columns[access] = slices.DeleteFunc(columns, r.lacks)
		}
	}
	return s
}

// tried says whether a statement would be refused, and why.
func (a *access) tried(s *statement, reduced *policy) (v verdict, why string) {
	worse := func(to verdict, reason string) {
		if to > v {
			v, why = to, reason
		}
	}
	if v, why := a.login(s, reduced); v != allowed {
		return v, why
	}
	if s.command == "connect" && len(s.relations) == 0 {
		n := need{role: s.role, db: s.db, kind: onDatabase, object: s.db, letter: 'c'}
		worse(a.compare(&n, reduced))
		return v, why
	}
	if !s.nested && !a.connected[[2]string{s.db, s.user}] {
		// The session was there before the period.
		n := need{role: s.user, db: s.db, kind: onDatabase, object: s.db, letter: 'c', unsure: true}
		worse(a.compare(&n, reduced))
	}
	if s.setRole != "" && !canSet(reduced, s.user, s.setRole, s.db) {
		if canSet(a.policy, s.user, s.setRole, s.db) {
			return denied, "permission denied to set role " + QuoteName(s.setRole)
		}
		return uncertain, "permission denied to set role " + QuoteName(s.setRole)
	}
	moved := *s
	other := s.user != s.role && !s.nested && canSet(a.policy, s.user, s.role, s.db) && !canSet(reduced, s.user, s.role, s.db)
	if other { // it would run as the user, because SET ROLE was refused before
		moved.role = s.user
	}
	for _, n := range a.policy.needs(&moved) {
		if other {
			if reduced.check(&n, nil) == denied {
				worse(denied, "without SET ROLE "+QuoteName(s.role)+": "+message(&n))
			}
			continue
		}
		worse(a.compare(&n, reduced))
	}
	if v == allowed && !s.plain(a.policy) {
		why := cmp.Or(a.needsMember(&moved, reduced), a.loses(moved.role, s.db, reduced), a.namesDropped(s, reduced))
		if strings.HasSuffix(s.command, " SERVER") || s.command == reassignOwned { // the new owner needs USAGE on its wrapper
			for _, owner := range a.policy.newOwners(&moved) {
				why = cmp.Or(why, a.losesUnreviewed(owner, s.db, reduced))
			}
		}
		for _, other := range a.policy.asOwners(&moved) {
			why = cmp.Or(why, a.needsMember(other, reduced), a.loses(other.role, s.db, reduced))
		}
		for _, other := range a.policy.ranAs(&moved) {
			why = cmp.Or(why, a.loses(other, s.db, reduced))
		}
		if why != "" {
			return uncertain, why
		}
	}
	return v, why
}

// login says whether the user of a statement could not log in any more. Of a session that was there before the period, the
// trail does not say when it will log in again.
func (a *access) login(s *statement, reduced *policy) (verdict, string) {
	had, has := a.policy.roles[s.user], reduced.roles[s.user]
	switch {
	case had == nil || !had.Login:
		return allowed, ""
	case has == nil && len(reduced.roles) > 0:
		return denied, "role " + QuoteName(s.user) + " does not exist"
	case has == nil || has.Login:
		return allowed, ""
	case s.command == "connect" && len(s.relations) == 0:
		return denied, "role " + QuoteName(s.user) + " is not permitted to log in"
	case !s.nested && !a.connected[[2]string{s.db, s.user}]:
		return uncertain, "role " + QuoteName(s.user) + " is not permitted to log in"
	}
	return allowed, ""
}

// namesDropped says that a statement may name a role that there is no more, as GRANT does.
func (a *access) namesDropped(s *statement, reduced *policy) string {
	text := strings.ToLower(s.full())
	for _, name := range slices.Sorted(maps.Keys(a.policy.roles)) {
		if len(reduced.roles) > 0 && reduced.roles[name] == nil && (text == "" || strings.HasSuffix(text, " ...") || strings.Contains(text, strings.ToLower(name))) {
			return "may name role " + QuoteName(name) + ", which does not exist"
		}
	}
	return ""
}

func canSet(p *policy, user, role, db string) bool {
	return user == role || p.superuser(user) || p.rolesOf(user, db, true)[role]
}

// compare checks a need with both sets of grants.
func (a *access) compare(n *need, reduced *policy) (verdict, string) {
	now := a.policy.check(n, nil)
	switch then := reduced.check(n, nil); {
	case then == allowed, then == now && now == uncertain:
		return allowed, ""
	case now == allowed && then == denied:
		return denied, message(n)
	case now == denied && !n.unsure:
		// It was allowed when it ran: the grants have changed, and nobody knows by what it was allowed.
		return uncertain, message(n) + ", as with the present grants"
	case now == denied:
		return allowed, ""
	}
	return uncertain, message(n)
}

// message is what the server would say.
func message(n *need) string {
	what := map[objectKind]string{onRelation: "table", onSequence: "sequence", onSchema: "schema", onDatabase: "database", onFunction: "function"}[n.kind]
	object := n.object
	if n.kind == onDatabase {
		object = QuoteName(object)
	}
	return "permission denied for " + what + " " + object + ": " + privilegeName(n.letter) + " by " + QuoteName(n.role)
}
