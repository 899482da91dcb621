// A dry run: checks the recorded statements against a reduced set of grants.

package review

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/pg-steno/pg_steno/internal/format"
)

// dryRun lists the statements that a reduced set of grants would have refused.
func (a *access) dryRun(reduced *policy, recordsMissing bool) *Section {
	s := &Section{
		Key: "dry_run", Title: "Dry run: statements that the reduced grants would have refused",
		Empty: a.nothingFails(recordsMissing),
		Note: `"may fail": the record does not tell whether the statement needs it. ` +
			`Statements of one shape are one line.`,
		Columns: []string{"verdict", "user", "role", "database", "reason", "statements", "records",
			"last_record", "text"},
	}
	for _, st := range a.found.statements {
		count := st.succeeded
		if st.started {
			count = st.accepted.count // statements without an end
		}
		if st.earlier || count == 0 || !a.isRequested(st.role) {
			continue
		}
		v, why := a.tryReduced(a.withCurrentNames(st), reduced)
		if v == allowed {
			continue
		}
		word := "fails"
		if v == uncertain {
			word = "may fail"
		}
		var records []string
		for _, id := range st.firstRecords {
			records = append(records, id.String())
		}
		s.add(word, st.user, st.role, st.db, why, count, records, st.accepted.last, st.text)
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

// nothingFails returns the sentence of a dry run in which no statement would have been refused.
func (a *access) nothingFails(recordsMissing bool) string {
	of := ""
	if len(a.Roles) > 0 {
		of = " of these roles"
	}
	if recordsMissing {
		return "None of the statements" + of + " that were recorded; part of the period was not recorded, or cannot " +
			"be read: see below."
	}
	return "None: every recorded statement" + of + " would have been allowed."
}

// withCurrentNames returns a statement with the present names of its role and of the objects that it uses.
func (a *access) withCurrentNames(s *statement) *statement {
	variants := a.renames.variants(s)
	for _, v := range variants {
		known := a.policy.roles[v.role] != nil
		for i := range v.relations {
			r := a.policy.inside[v.db].relation(v.relations[i].name)
			known = known && r != nil && (v.variantOf != nil || r.hasColumns(&v.relations[i]))
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
			if len(r.Columns) > 0 && r.lacksColumn(c) {
				return false
			}
		}
	}
	return true
}

// lacksColumn reports whether a relation has no column of this name.
func (r *relation) lacksColumn(column string) bool {
	return column != format.WholeRow && !systemColumn(column) && !slices.Contains(r.Columns, column)
}

// presentColumns returns a statement without the names of columns that no longer exist.
func (a *access) presentColumns(s *statement) *statement {
	if s.variantOf == nil {
		return s
	}
	for i := range s.relations {
		r := a.policy.inside[s.db].relation(s.relations[i].name)
		if len(r.Columns) == 0 {
			continue
		}
		for access, columns := range s.relations[i].columns {
			s.relations[i].columns[access] = slices.DeleteFunc(columns, r.lacksColumn)
		}
	}
	return s
}

// tryReduced returns whether the reduced grants allow a statement, and why not.
func (a *access) tryReduced(s *statement, reduced *policy) (v verdict, why string) {
	worse := func(to verdict, reason string) {
		if to > v {
			v, why = to, reason
		}
	}
	if v, why := a.loginVerdict(s, reduced); v != allowed {
		return v, why
	}
	if s.command == "connect" && len(s.relations) == 0 {
		n := need{role: s.role, db: s.db, kind: onDatabase, object: s.db, letter: 'c'}
		worse(a.compareNeed(&n, reduced))
		return v, why
	}
	if !s.nested && !a.connected[[2]string{s.db, s.user}] {
		// The session began before the period.
		n := need{role: s.user, db: s.db, kind: onDatabase, object: s.db, letter: 'c', unsure: true}
		worse(a.compareNeed(&n, reduced))
	}
	if s.setRole != "" && !canSet(reduced, s.user, s.setRole, s.db) {
		if canSet(a.policy, s.user, s.setRole, s.db) {
			return denied, "permission denied to set role " + QuoteName(s.setRole)
		}
		return uncertain, "permission denied to set role " + QuoteName(s.setRole)
	}
	moved := *s
	other := s.user != s.role && !s.nested && canSet(a.policy, s.user, s.role, s.db) &&
		!canSet(reduced, s.user, s.role, s.db)
	if other { // SET ROLE would have been refused, so it would run as the user
		moved.role = s.user
	}
	for _, n := range a.policy.needs(&moved) {
		if other {
			if reduced.check(&n, nil) == denied {
				worse(denied, "without SET ROLE "+QuoteName(s.role)+": "+refusalMessage(&n))
			}
			continue
		}
		worse(a.compareNeed(&n, reduced))
	}
	if v == allowed && !s.needsOnlyRecorded(a.policy) {
		why := cmp.Or(a.reasonMembershipNeeded(&moved, reduced), a.unseenLoss(moved.role, s.db, reduced),
			a.namesDropped(s, reduced))
		if strings.HasSuffix(s.command, " SERVER") || s.command == reassignOwned {
			// the new owner needs USAGE on its wrapper
			for _, owner := range a.policy.newOwners(&moved) {
				why = cmp.Or(why, a.unreviewedLoss(owner, s.db, reduced))
			}
		}
		for _, other := range a.policy.asNewOwners(&moved) {
			why = cmp.Or(why, a.reasonMembershipNeeded(other, reduced), a.unseenLoss(other.role, s.db, reduced))
		}
		for _, other := range a.policy.ranAs(&moved) {
			why = cmp.Or(why, a.unseenLoss(other, s.db, reduced))
		}
		if why != "" {
			return uncertain, why
		}
	}
	return v, why
}

// loginVerdict returns whether the user of a statement could still log in. If the session began before the period,
// the trail does not show when its user will log in again.
func (a *access) loginVerdict(s *statement, reduced *policy) (verdict, string) {
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

// namesDropped returns why a statement may name a role that the script drops, as GRANT does.
func (a *access) namesDropped(s *statement, reduced *policy) string {
	text := strings.ToLower(s.fullText())
	for _, name := range slices.Sorted(maps.Keys(a.policy.roles)) {
		if len(reduced.roles) > 0 && reduced.roles[name] == nil &&
			(text == "" || strings.HasSuffix(text, " ...") || strings.Contains(text, strings.ToLower(name))) {
			return "may name role " + QuoteName(name) + ", which does not exist"
		}
	}
	return ""
}

func canSet(p *policy, user, role, db string) bool {
	return user == role || p.isSuperuser(user) || p.rolesOf(user, db, true)[role]
}

// compareNeed checks a need against both sets of grants.
func (a *access) compareNeed(n *need, reduced *policy) (verdict, string) {
	now := a.policy.check(n, nil)
	switch then := reduced.check(n, nil); {
	case then == allowed, then == now && now == uncertain:
		return allowed, ""
	case now == allowed && then == denied:
		return denied, refusalMessage(n)
	case now == denied && !n.unsure:
		// It was allowed when it ran, so the grants have changed since; what allowed it is unknown.
		return uncertain, refusalMessage(n) + ", as with the present grants"
	case now == denied:
		return allowed, ""
	}
	return uncertain, refusalMessage(n)
}

// refusalMessage returns the server's error for an unmet need.
func refusalMessage(n *need) string {
	what := map[objectKind]string{onRelation: "table", onSequence: "sequence", onSchema: "schema",
		onDatabase: "database", onFunction: "function"}[n.kind]
	object := n.object
	if n.kind == onDatabase {
		object = QuoteName(object)
	}
	return "permission denied for " + what + " " + object + ": " + privilegeName(n.letter) + " by " + QuoteName(n.role)
}
