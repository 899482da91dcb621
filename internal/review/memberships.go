// Unused memberships, and those whose use records do not show.

package review

import (
	"maps"
	"slices"
	"strings"

	"github.com/pg-steno/pg_steno/internal/query"
)

// unseen reports whether a role is a predefined one whose rights are used without a trace in records.
func unseen(role string) bool {
	return strings.HasPrefix(role, "pg_") && role != databaseOwner && !isOnEverything(role)
}

func isOnEverything(role string) bool {
	return slices.ContainsFunc(onEverything, func(r rightsOnEverything) bool { return r.role == role })
}

// leadsTo returns the roles whose privileges a membership gives without SET ROLE, which has records of its own. The
// members of pg_database_owner are those in database db.
func (p *policy) leadsTo(e *membership, db string) map[string]bool {
	if !e.inherits {
		return nil
	}
	all := maps.Clone(p.rolesOf(e.Role, db, false))
	all[e.Role] = true
	return all
}

// reachedBy returns a role and all roles that have its privileges.
func (p *policy) reachedBy(role string) map[string]bool {
	all := map[string]bool{role: true}
	for queue := []string{role}; len(queue) > 0; queue = queue[1:] {
		for _, e := range p.memberships {
			if e.Role == queue[0] && e.inherits && !all[e.Member] {
				all[e.Member] = true
				queue = append(queue, e.Member)
			}
		}
	}
	return all
}

// idleMembers lists the memberships that can be revoked, and those that are kept because they may be in use.
func (a *access) idleMembers(out *Access) (idle, kept *Section) {
	idle = &Section{
		Key: "memberships", Title: "Members that never used a group's rights", Empty: "None.",
		Note: "Neither a privilege of the group was used, nor SET ROLE, nor any of its rights as an owner, nor " +
			"ADMIN OPTION.",
		Columns: []string{"role", "member", "admin", "earlier_use", "follow"},
	}
	kept = &Section{
		Key: "undecided_memberships", Title: "Members of which no use was seen, but the trail cannot know",
		Empty:   "None.",
		Note:    "They are not in the script: what they lead to may be in use without a record.",
		Columns: []string{"role", "member", "reason"},
	}
	for _, e := range a.policy.memberships {
		if e.used.count > 0 || a.policy.isSuperuser(e.Member) || !a.isRequested(e.Member) && !a.isRequested(e.Role) ||
			strings.HasPrefix(e.Member, "pg_") {
			continue
		}
		if why := a.reasonInUse(e); why != "" {
			kept.add(e.Role, e.Member, why)
			continue
		}
		out.idleMemberships = append(out.idleMemberships, e)
		idle.add(e.Role, e.Member, e.Admin, e.used.lastUse(), a.catCommand(query.Criteria{Roles: []string{e.Member}}))
	}
	return idle, kept
}

// reasonInUse returns why a membership may be in use although no record shows it; empty if it is not.
func (a *access) reasonInUse(e *membership) string {
	p := a.policy
	switch {
	case a.Grants.Restored != nil:
		return "the grants are those of dumps, which do not say who has privileges that are not reviewed: take them " +
			"with \"steno review grants\""
	case len(a.usedOutside) > 0:
		return "statements used relations in databases of which there are no grants"
	case a.incomplete[e.Member]:
		return "records of the member leave out relations or objects"
	case p.isDefiner(e.Member):
		return "functions with the rights of the member evaluate expressions that have no record"
	case len(a.lostRoles) > 0 && !a.ranStatements[e.Member]:
		return "roles that ran statements are not among the grants: the member may be one of them"
	}
	users := p.reachedBy(e.Member)
	for at := range a.active {
		role, db, _ := strings.Cut(at, "\x00")
		if users[role] && p.inside[db] == nil && db != "" {
			return "statements in database " + QuoteName(db) + ", of which there are no grants"
		}
	}
	for _, db := range slices.Sorted(maps.Keys(p.inside)) {
		leads := p.leadsTo(e, db)
		if why := a.reasonRunByFunctions(e.Member, leads, db); why != "" {
			return why
		}
		if why := p.unreviewedRight(leads, db); why != "" {
			return why
		}
		if !a.isActive(users, db) {
			continue
		}
		for _, g := range p.withEverything(db) {
			if leads[g.grantee] && !g.extension {
				if why := a.reasonUndecided(g); why != "" && !a.hasOtherwise(e.Member, g) {
					return privilegeName(g.letter) + " on " + kindName(g) + " " + g.object + " of " +
						QuoteName(g.grantee) + ": " + why
				}
			}
		}
	}
	return ""
}

// isActive reports whether one of these roles, or a role with its privileges, ran statements in a database.
func (a *access) isActive(roles map[string]bool, db string) bool {
	for role := range roles {
		if a.active[role+"\x00"+db] {
			return true
		}
	}
	return false
}

// reasonRunByFunctions returns why functions may be called with the rights of a role that runs no statements itself.
func (a *access) reasonRunByFunctions(member string, leads map[string]bool, db string) string {
	if !a.policy.inside[db].calledAs[member] {
		return ""
	}
	for _, g := range a.policy.grants {
		if g.db == db && g.kind == onFunction && leads[g.grantee] {
			return "indexes and aggregates call functions with the rights of the member as their owner"
		}
	}
	return ""
}

// hasOtherwise reports whether a role has the privilege of a grant also directly or through PUBLIC.
func (a *access) hasOtherwise(role string, g *grant) bool {
	return slices.ContainsFunc(a.policy.grants, func(o *grant) bool {
		return (o.grantee == "" || o.grantee == role) && o.db == g.db && o.kind == g.kind && o.object == g.object &&
			o.letter == g.letter &&
			(o.column == "" || o.column == g.column) &&
			(o.used.count > 0 || a.reasonUndecided(o) != "" || !a.reviewed(o))
	})
}

// unreviewedRight names a right of these roles whose use records do not show; empty if there is none.
func (p *policy) unreviewedRight(roles map[string]bool, db string) string {
	for _, role := range slices.Sorted(maps.Keys(roles)) {
		switch {
		case unseen(role):
			return "records do not show the use of rights of " + role
		case p.Version >= 190000 && (role == "pg_read_all_data" || role == "pg_write_all_data"):
			return "records do not show the use of large objects, on which " + role + " has privileges"
		}
	}
	d := p.database(db)
	if d.Unreviewed == nil && len(roles) > 0 {
		return "the grants do not say who has privileges that are not reviewed: take them with \"steno review grants\""
	}
	for _, u := range d.Unreviewed {
		if roles[u.Role] {
			return "privileges that are not reviewed: " + u.On + " of " + QuoteName(u.Role)
		}
	}
	return ""
}

// useForGrant marks the grants that a GRANT or REVOKE may have needed. Without a grant option, any privilege on the
// object makes the server warn instead of refusing.
func (p *policy) useForGrant(s *statement) {
	if p.isSuperuser(s.role) {
		return
	}
	for _, g := range p.grants {
		if g.db == s.db && p.hasPrivilegesOf(s.role, g.grantee, s.db) && s.isAbout(g) {
			g.used.mark(s)
			g.allColumns = true
			p.useMembership(s.role, g.grantee, s.db, false, s)
		}
	}
	for _, all := range onEverything {
		if p.hasPrivilegesOf(s.role, all.role, s.db) {
			p.useMembership(s.role, all.role, s.db, false, s)
		}
	}
}

// ---- dry run ----

// unseenLoss names a right that a role would lose and whose use records do not show; empty if there is none.
func (a *access) unseenLoss(role, db string, reduced *policy) string {
	key := role + "\x00" + db
	if why, known := a.unseenLosses[key]; known {
		return why
	}
	if a.unseenLosses == nil {
		a.unseenLosses = map[string]string{}
	}
	a.unseenLosses[key] = a.findUnseenLoss(role, db, reduced)
	return a.unseenLosses[key]
}

func (a *access) findUnseenLoss(role, db string, reduced *policy) string {
	p := a.policy
	if p.isSuperuser(role) && !reduced.isSuperuser(role) {
		return "may need to be a superuser"
	}
	if p.isSuperuser(role) || p.inside[db] == nil {
		return ""
	}
	if why := a.unreviewedLoss(role, db, reduced); why != "" {
		return why
	}
	for _, g := range p.withEverything(db) {
		if !p.hasPrivilegesOf(role, g.grantee, db) {
			continue
		}
		n := need{role: role, db: db, kind: g.kind, object: g.object, letter: g.letter}
		if g.kind == onFunction {
			n.object = functionName(g.object)
		}
		if g.column != "" {
			n.columns = []string{g.column}
		}
		if why := a.reasonUndecided(g); why != "" && reduced.check(&n, nil) != allowed {
			return refusalMessage(&n) + ": " + why
		}
	}
	return ""
}

// unreviewedLoss names a right that a role would lose and that is not reviewed; empty if there is none.
func (a *access) unreviewedLoss(role, db string, reduced *policy) string {
	p := a.policy
	if p.isSuperuser(role) || p.inside[db] == nil {
		return ""
	}
	kept := reduced.rolesOf(role, db, false)
	gone := maps.Clone(p.rolesOf(role, db, false))
	maps.DeleteFunc(gone, func(r string, _ bool) bool { return kept[r] })
	if why := p.unreviewedRight(gone, db); why != "" {
		return why
	}
	if d := reduced.database(db); d != nil {
		for _, u := range p.database(db).Unreviewed {
			if p.hasPrivilegesOf(role, u.Role, db) && !slices.ContainsFunc(d.Unreviewed, func(k Unreviewed) bool {
				return k.On == u.On && reduced.hasPrivilegesOf(role, k.Role, db)
			}) {
				return "privileges that are not reviewed: " + u.On + " of " + QuoteName(u.Role)
			}
		}
	}
	return ""
}

// needsOnlyRecorded reports whether a statement needs no more than its record shows: it reads tables, and calls no
// function.
func (s *statement) needsOnlyRecorded(p *policy) bool {
	if s.class == "transaction" || s.command == "connect" {
		return true
	}
	if s.command != "SELECT" || s.calls || s.incomplete || len(s.executes)+len(s.objects) > 0 {
		return false
	}
	return !slices.ContainsFunc(s.relations, func(r usedRelation) bool {
		rel := p.inside[s.db].relation(r.name)
		return r.kind != "table" || isSystemSchema(schemaOf(r.name)) || rel == nil || len(rel.PolicyRoles) > 0
	})
}

// reasonMembershipNeeded returns why a statement may need a membership that the reduced grants lack: in the owner of
// an object, in an administrator, or in a role that it names; empty if it does not.
func (a *access) reasonMembershipNeeded(s *statement, reduced *policy) string {
	p := a.policy
	if p.isSuperuser(s.role) {
		return ""
	}
	member := func(role string) string { return "may need to be a member of " + QuoteName(role) }
	if s.isGrant() {
		if why := a.grantRightLoss(s, reduced); why != "" {
			return why
		}
	}
	if s.class == "role" && s.command != "GRANT" && s.command != "REVOKE" {
		kept := reduced.administers(s.role)
		for _, e := range p.administers(s.role) {
			if !slices.ContainsFunc(kept, func(k *membership) bool {
				return k.Role == e.Role && k.Member == e.Member && (k.Admin || !e.Admin)
			}) {
				return "may need ADMIN OPTION on " + QuoteName(e.Role)
			}
		}
	}
	owner := ""
	for _, o := range s.objects {
		if rel := p.inside[s.db].relation(o.name); rel != nil && owner == "" {
			if owner = rel.Owner; p.hasPrivilegesOf(s.role, owner, s.db) &&
				!reduced.hasPrivilegesOf(s.role, owner, s.db) {
				return "may need the rights of " + QuoteName(owner) + ", the owner of " + o.name
			}
		}
	}
	lost := func(set bool) string {
		kept := reduced.rolesOf(s.role, s.db, set)
		for _, other := range slices.Sorted(maps.Keys(p.rolesOf(s.role, s.db, set))) {
			if !kept[other] {
				return other
			}
		}
		return ""
	}
	if other := lost(false); other != "" && (s.dependsOnMembers || owner == "" && len(s.objects) > 0) {
		return member(other)
	}
	if other := lost(true); other != "" &&
		(s.dependsOnMembers || s.changesOwner() || s.command == "ALTER DEFAULT PRIVILEGES") {
		return member(other)
	}
	return ""
}

// grantRightLoss returns the lost right that a GRANT may need on the objects that it names; empty if there is none.
func (a *access) grantRightLoss(s *statement, reduced *policy) string {
	for _, all := range onEverything { // with any privilege on the object, the server only warns
		if a.policy.hasPrivilegesOf(s.role, all.role, s.db) && !reduced.hasPrivilegesOf(s.role, all.role, s.db) {
			return "may need the rights of " + all.role
		}
	}
	for _, g := range a.policy.grants {
		if g.db != s.db || !a.policy.hasPrivilegesOf(s.role, g.grantee, s.db) || !s.isAbout(g) {
			continue
		}
		if !slices.ContainsFunc(reduced.grants, func(o *grant) bool {
			return o.db == g.db && o.kind == g.kind && o.object == g.object && o.column == g.column &&
				o.letter == g.letter && (o.option || !g.option) &&
				reduced.hasPrivilegesOf(s.role, o.grantee, s.db)
		}) {
			return "may need the right to grant " + privilegeName(g.letter) + " on " + g.object
		}
	}
	return ""
}

// isAbout reports whether a GRANT or REVOKE names the object of a grant. Records of DROP OWNED name the objects whose
// privileges it revokes.
func (s *statement) isAbout(g *grant) bool {
	return len(s.objects) == 0 || slices.ContainsFunc(s.objects, func(o usedObject) bool {
		return o.name == g.object || o.name == QuoteName(g.object) ||
			g.kind == onFunction && o.name == functionName(g.object)
	})
}

const dropOwned = "DROP OWNED"

// isGrant reports whether a statement grants or revokes privileges on objects.
func (s *statement) isGrant() bool {
	return s.command == "GRANT" || s.command == "REVOKE" || s.command == dropOwned
}
