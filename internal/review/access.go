// Which of the privileges that were granted have been used, and by whom.

package review

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/pg-steno/pg_steno/internal/format"
	"github.com/pg-steno/pg_steno/internal/proof"
	"github.com/pg-steno/pg_steno/internal/query"
	"github.com/pg-steno/pg_steno/internal/trail"
)

// AccessOptions are what a review of access is about.
type AccessOptions struct {
	Source
	Grants *Grants
	// Roles are the only ones that the answer is about; empty: all.
	Roles []string
	// NewSince is from when on access is new that was not there before; trail.MinTime: the last tenth
	// of the period.
	NewSince int64
	// Reduced are grants with which the recorded statements are tried; nil: none. Applied says what of a script made them.
	Reduced *Grants
	Applied *Applied
	// Apart are the system identifiers of other servers that have written a part of the trails; see OfServer.
	Apart []string
}

// Access is a review of access, as far as it is needed to make a script of it.
type Access struct {
	*Document
	policy   *policy
	unused   []*grant
	idle     []*membership // memberships that nothing has used
	lacking  bool          // something of the period was not recorded, or cannot be read
	describe string
}

// rare is how many statements are few.
const rare = 3

// listed is how many rows of a table there are at most.
const listed = 10_000

// ReviewAccess reads the trail and compares it with the grants.
func ReviewAccess(ctx context.Context, o AccessOptions) (*Access, error) {
	begin, end, _ := o.bounds()
	visitors, schemas := make([]visitor, trail.Workers()), o.Grants.schemas()
	collectors := make([]*collector, len(visitors))
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	for i := range visitors {
		collectors[i] = newCollector(o.Since, schemas, stop)
		visitors[i] = collectors[i]
	}
	var wrong once
	warn := o.Warn
	o.Warn = func(err error) {
		if wrong.warn(err) {
			warn(err)
		}
	}
	// What is before the period tells when something unused was used last.
	whole := o.Source
	lack, err := whole.read(ctx, trail.ScanOptions{Since: format.MinTime, Until: o.Until}, proof.Needs{Objects: true}, visitors)
	if slices.ContainsFunc(collectors, func(c *collector) bool { return c.full }) {
		return nil, fmt.Errorf("the period has more than %d different statements: review a shorter one", mostStatements)
	}
	if err != nil {
		return nil, err
	}
	a := &access{AccessOptions: &o, policy: newPolicy(o.Grants), found: joinCollectors(collectors)}
	a.from, a.to = max(o.Since, begin), min(o.Until, end)
	if o.NewSince == format.MinTime {
		a.NewSince = a.to - max(0, a.to/10-a.from/10) // the difference of two times may be too large
	}
	a.evaluate()
	doc := &Document{Review: "access", Incomplete: wrong.bad}
	doc.Facts = []Fact{
		{"period from", stamp(a.from)}, {"period until", stamp(a.to)},
		{"databases", o.Grants.Inside()}, {"grants of", o.Grants.Taken}, {"trail", o.Trails},
	}
	if o.Grants.System != "" {
		doc.Facts = append(doc.Facts, Fact{"server", o.Grants.System})
	}
	out := &Access{Document: doc, policy: a.policy, lacking: lack.lacking || wrong.bad || len(o.Apart) > 0}
	out.describe = fmt.Sprintf("from %s until %s", text(stamp(a.from)), text(stamp(a.to)))
	idle, kept := a.idleMembers(out)
	doc.Sections = []*Section{
		a.unusedGrants(out), a.unusedColumns(), a.undecided(), idle, kept, a.dormant(), a.newAccess(), a.rareAccess(), a.newAddresses(), a.refused(),
	}
	if o.Applied != nil {
		doc.Facts = append(doc.Facts, Fact{"script", o.Applied.String()})
	}
	if o.Reduced != nil {
		doc.Sections = append([]*Section{a.dryRun(newPolicy(o.Reduced), out.lacking)}, doc.Sections...)
	}
	doc.Limits = append(append(wrong.list, a.limits()...), lack.exclusions...)
	if a.found.forgets {
		doc.Limits = append(doc.Limits, fmt.Sprintf("Before the period, the trail has more than %d different statements: the time of an earlier use may be missing, and an access called new that is not.", mostStatements))
	}
	doc.Warnings = a.unknownRoles()
	return out, nil
}

// access is a review that is being made.
type access struct {
	*AccessOptions
	policy   *policy
	found    *used
	from, to int64

	active     map[string]bool // roles with statements, with those whose privileges they have
	incomplete map[string]bool // roles of records that leave something out
	unknown    map[[2]string]*uses
	elsewhere  map[string]bool // databases whose inside is not known, and in which something was used
	vague      map[string]bool // databases in which sequences are named by parameters
	renames    *renames
	lostRoles  map[string]bool    // that ran statements, and are not among the grants, and no record says why
	alive      map[string]bool    // roles of statements of the period, under all their names
	connected  map[[2]string]bool // databases and users with a login in the period
	lost       map[string]string  // what a dry run takes from roles; see loses
}

// evaluate marks what statements have used.
func (a *access) evaluate() {
	a.active, a.incomplete, a.unknown, a.vague, a.elsewhere = map[string]bool{}, map[string]bool{}, map[[2]string]*uses{}, map[string]bool{}, map[string]bool{}
	a.lostRoles, a.alive, a.connected = map[string]bool{}, map[string]bool{}, map[[2]string]bool{}
	a.renames = newRenames(a.found.statements)
	for _, s := range a.found.statements {
		variants := a.renames.variants(s)
		if !s.earlier {
			for _, v := range variants {
				a.alive[v.user], a.alive[v.role] = true, true
			}
		}
		if s.worked.count == 0 {
			continue
		}
		for _, v := range variants {
			a.evaluateOne(v)
		}
		a.noteUnknown(s, variants)
		a.noteLost(s, variants)
	}
}

// evaluateOne marks what a statement has used, with the names that it has.
func (a *access) evaluateOne(s *statement) {
	p := a.policy
	roles := []string{s.role}
	for r := range p.rolesOf(s.role, s.db, false) {
		roles = append(roles, r)
	}
	for _, r := range append(roles, "") {
		a.active[r+"\x00"+s.db] = true
		if s.incomplete {
			a.incomplete[r] = true
		}
	}
	if !s.nested { // also of a session that was there before the period: it will log in again
		p.check(&need{role: s.user, db: s.db, kind: onDatabase, object: s.db, letter: 'c'}, s)
	}
	if s.command == "connect" && len(s.relations) == 0 {
		if !s.earlier {
			a.connected[[2]string{s.db, s.user}] = true
		}
		return
	}
	if !s.earlier && p.inside[s.db] == nil && (s.usesRelations() || len(s.objects)+len(s.executes) > 0 && !p.superuser(s.role)) {
		a.elsewhere[s.db] = true
	}
	if s.user != s.role && !p.superuser(s.user) {
		p.useMembership(s.user, s.role, s.db, true, s)
	}
	if s.setRole != "" {
		for _, role := range a.renames.global("role", s.setRole) {
			p.useMembership(s.user, role, s.db, true, s)
		}
	}
	if s.asksMembers {
		for _, role := range []string{s.role, s.user} {
			for other := range p.rolesOf(role, s.db, false) {
				p.useMembership(role, other, s.db, false, s)
			}
			for other := range p.rolesOf(role, s.db, true) {
				p.useMembership(role, other, s.db, true, s)
			}
		}
	}
	if s.class == "role" && s.command != "GRANT" && s.command != "REVOKE" { // those are of privileges
		p.useAdmin(s.role, s)
	}
	if s.isGrant() {
		p.useForGrant(s)
	}
	if s.givesAway() || s.command == "ALTER DEFAULT PRIVILEGES" { // of a role of which it is a member
		for other := range p.rolesOf(s.role, s.db, true) {
			p.useMembership(s.role, other, s.db, true, s)
		}
	}
	if slices.Contains(s.sequences, "") {
		a.vague[s.db] = true
	}
	for _, n := range p.needs(s) {
		p.check(&n, s)
	}
}

// usesRelations says whether a statement uses relations that are neither the system's nor views of pg_steno.
func (s *statement) usesRelations() bool {
	return slices.ContainsFunc(s.relations, func(r usedRelation) bool { return !isSystemSchema(schemaOf(r.name)) && schemaOf(r.name) != "steno" })
}

// noteUnknown notes relations that the grants do not have.
func (a *access) noteUnknown(s *statement, variants []*statement) {
	if s.earlier || a.policy.inside[s.db] == nil {
		return
	}
	for i, r := range s.relations {
		known := func(v *statement) bool { return a.policy.inside[v.db].relation(v.relations[i].name) != nil }
		if !isSystemSchema(schemaOf(r.name)) && !slices.ContainsFunc(variants, known) {
			key := [2]string{s.db, r.name}
			if a.unknown[key] == nil {
				a.unknown[key] = &uses{}
			}
			a.unknown[key].take(s)
		}
	}
}

// wanted says whether the answer is about a role.
func (a *access) wanted(role string) bool {
	return len(a.Roles) == 0 || slices.Contains(a.Roles, role) || role == "" && slices.Contains(a.Roles, "PUBLIC")
}

// unknownRoles tells of roles that the answer is to be about, and that are neither among the grants nor in the trail.
func (a *access) unknownRoles() (all []string) {
	names := a.Grants.roleNames()
	for _, s := range a.found.statements {
		names = append(names, s.user, s.role)
	}
	for l := range a.found.logins {
		names = append(names, l.user)
	}
	for _, role := range a.Roles {
		if role != "PUBLIC" && !slices.Contains(names, role) {
			all = append(all, fmt.Sprintf("no role of the name %q is among the grants or in the trail; nearest: %q", role, query.Nearest(role, names)))
		}
	}
	return all
}

// reviewed says whether the answer is about a grant: not about those of owners, superusers, the
// system and extensions.
func (a *access) reviewed(g *grant) bool {
	return !g.extension && g.grantee != g.owner && !a.policy.superuser(g.grantee) && !strings.HasPrefix(g.grantee, "pg_") &&
		a.wanted(g.grantee) && a.policy.inside[g.db] != nil
}

// doubt says why a trail cannot know that a grant was not used; empty if it can.
func (a *access) doubt(g *grant) string {
	if why := cmp.Or(g.lost, a.policy.unrestored(g.db, g.kind)); why != "" {
		return why
	}
	if why := a.hidden(g); why != "" {
		return why
	}
	if !a.active[g.grantee+"\x00"+g.db] && g.grantee != "" {
		return ""
	}
	switch {
	case a.incomplete[g.grantee]:
		return "records of the role leave out relations or objects"
	case g.kind == onSequence && (g.letter == 'U' || g.letter == 'w' || g.letter == 'r') && a.active[g.grantee+"\x00"+g.db]:
		return "records do not name the sequences that functions, triggers and parameters use"
	case g.kind == onFunction && g.sqlBody && a.active[g.grantee+"\x00"+g.db]:
		return "functions in SQL that the planner inlines are not recorded"
	case g.kind == onSchema && g.letter == 'U':
		return a.hiddenInSchema(g)
	}
	return ""
}

func kindName(g *grant) string {
	switch g.kind {
	case onSequence:
		return "sequence"
	case onSchema:
		return "schema"
	case onDatabase:
		return "database"
	case onFunction:
		if g.relkind == "p" {
			return "procedure"
		}
		return "function"
	}
	switch g.relkind {
	case "v":
		return "view"
	case "m":
		return "materialized view"
	case "f":
		return "foreign table"
	}
	return "table"
}

func roleName(role string) string {
	if role == "" {
		return "PUBLIC"
	}
	return role
}

// sorted are the reviewed grants in the order of the answer.
func (a *access) sorted() []*grant {
	all := slices.DeleteFunc(slices.Clone(a.policy.grants), func(g *grant) bool { return !a.reviewed(g) })
	slices.SortStableFunc(all, func(x, y *grant) int {
		return cmp.Or(cmp.Compare(x.grantee, y.grantee), cmp.Compare(x.db, y.db), cmp.Compare(x.kind, y.kind), cmp.Compare(x.object, y.object), cmp.Compare(x.column, y.column))
	})
	return all
}

// lastUse is the last use before the period.
func (u *uses) lastUse() any {
	if u.earlier.count == 0 {
		return nil
	}
	return stamp(u.earlier.last.Time)
}

func (a *access) unusedGrants(out *Access) *Section {
	s := &Section{
		Key: "unused", Title: "Granted and never used", Empty: "Every privilege was used.",
		Note:    "No statement of the period needed these, as far as the trail can tell. An earlier use is one before the period.",
		Columns: []string{"role", "database", "kind", "object", "column", "privilege", "grantor", "earlier_use", "record", "follow"},
	}
	for _, g := range a.sorted() {
		if g.used.count > 0 || a.doubt(g) != "" {
			continue
		}
		out.unused = append(out.unused, g)
		s.add(roleName(g.grantee), g.db, kindName(g), g.object, orNil(g.column), privilegeName(g.letter), g.grantor, g.used.lastUse(), lastRecord(&g.used), a.follow(g))
	}
	return s
}

func lastRecord(u *uses) any {
	if u.earlier.count == 0 {
		return nil
	}
	return u.earlier.last
}

func orNil(s string) any {
	if s == "" {
		return nil
	}
	return s
}

// follow is the command that shows the records of a grant: whom they may be of, and what they use.
func (a *access) follow(g *grant) string {
	c := query.Criteria{Databases: []string{g.db}}
	if g.grantee != "" {
		c.Roles = append([]string{g.grantee}, a.membersOf(g.grantee)...)
	}
	switch g.kind {
	case onFunction:
		c.Objects = []string{functionName(g.object)}
	case onSchema:
		c.Objects = []string{g.object + ".*"}
	case onRelation, onSequence:
		object := g.object
		if g.column != "" {
			object += "." + g.column
		}
		c.Objects = []string{object}
	}
	return a.cat(c)
}

// membersOf are the roles that inherit a role's privileges, a few of them.
func (a *access) membersOf(role string) (found []string) {
	for _, e := range a.policy.edges {
		if e.Role == role && e.inherits && len(found) < 8 {
			found = append(found, e.Member)
		}
	}
	return found
}

func (a *access) unusedColumns() *Section {
	s := &Section{
		Key: "columns", Title: "Columns that were never used under a privilege on the whole table", Empty: "None.",
		Note:    "A privilege on the columns used would have been enough.",
		Columns: []string{"role", "database", "object", "privilege", "columns_used", "columns_never_used", "statements", "last_use", "record"},
	}
	for _, g := range a.sorted() {
		if g.kind != onRelation || g.column != "" || g.used.count == 0 || g.whole || g.blurred || strings.IndexByte("raw", g.letter) < 0 {
			continue
		}
		r := a.policy.inside[g.db].relations[g.object]
		var usedColumns, never []string
		for _, c := range r.Columns {
			if u := g.columns[c]; u != nil && u.count > 0 {
				usedColumns = append(usedColumns, c)
			} else {
				never = append(never, c)
			}
		}
		if len(never) > 0 {
			s.add(roleName(g.grantee), g.db, g.object, privilegeName(g.letter), usedColumns, never, g.used.count, stamp(g.used.last.Time), g.used.last)
		}
	}
	return s
}

func (a *access) undecided() *Section {
	s := &Section{
		Key: "undecided", Title: "Not seen, but the trail cannot know", Empty: "None.",
		Columns: []string{"role", "database", "kind", "object", "privilege", "reason"},
	}
	for _, g := range a.sorted() {
		if why := a.doubt(g); g.used.count == 0 && why != "" {
			s.add(roleName(g.grantee), g.db, kindName(g), g.object, privilegeName(g.letter), why)
		}
	}
	return s
}

// ---- roles ----

func (a *access) dormant() *Section {
	s := &Section{
		Key: "dormant", Title: "Dormant roles", Empty: "None.",
		Note:    "Roles that can log in and had no session, and roles that cannot and of which no privilege was used.",
		Columns: []string{"role", "login", "superuser", "refused_logins", "last_refused"},
	}
	active := maps.Clone(a.alive)
	for _, g := range a.policy.grants {
		if g.used.count > 0 {
			active[g.grantee] = true
		}
	}
	for _, e := range a.policy.edges {
		if e.used.count > 0 {
			active[e.Role] = true
		}
	}
	refused := map[string]*seen{}
	for l, u := range a.found.logins {
		if l.refused {
			if refused[l.user] == nil {
				refused[l.user] = &seen{}
			}
			refused[l.user].join(*u)
		} else {
			for _, name := range a.renames.global("role", l.user) {
				active[name] = true
			}
		}
	}
	for _, r := range a.Grants.Roles {
		if active[r.Name] || strings.HasPrefix(r.Name, "pg_") || !a.wanted(r.Name) {
			continue
		}
		if no := refused[r.Name]; no != nil {
			s.add(r.Name, r.Login, r.Superuser, no.count, no.last)
		} else {
			s.add(r.Name, r.Login, r.Superuser, 0, nil)
		}
	}
	return s
}

// ---- new and unusual access ----

// tableUse is the access of a role to a relation.
type tableUse struct{ db, role, name string }

func (a *access) tables() (order []tableUse, all map[tableUse]*uses) {
	all = map[tableUse]*uses{}
	for _, s := range a.found.statements {
		if s.worked.count == 0 || !a.wanted(s.role) {
			continue
		}
		for _, r := range s.relations {
			if isSystemSchema(schemaOf(r.name)) || len(r.access) == 0 {
				continue
			}
			k := tableUse{s.db, s.role, r.name}
			if all[k] == nil {
				all[k] = &uses{}
				order = append(order, k)
			}
			all[k].take(s)
		}
	}
	slices.SortFunc(order, func(x, y tableUse) int {
		return cmp.Or(cmp.Compare(x.db, y.db), cmp.Compare(x.role, y.role), cmp.Compare(x.name, y.name))
	})
	return order, all
}

func (a *access) newAccess() *Section {
	s := &Section{
		Key: "new", Title: "New access", Empty: "None.",
		Note:    "First use of a relation by a role since " + text(stamp(a.NewSince)) + "; the role did not use it before.",
		Columns: []string{"role", "database", "object", "statements", "first", "record", "follow"},
	}
	order, all := a.tables()
	for _, k := range order {
		if u := all[k]; u.count > 0 && u.earlier.count == 0 && u.first.Time >= a.NewSince {
			s.add(k.role, k.db, k.name, u.count, stamp(u.first.Time), u.first, a.cat(query.Criteria{Databases: []string{k.db}, Roles: []string{k.role}, Objects: []string{k.name}}))
		}
	}
	return s
}

func (a *access) rareAccess() *Section {
	s := &Section{
		Key: "rare", Title: "Unusual access", Empty: "None.",
		Note:    fmt.Sprintf("A role used a relation in at most %d statements.", rare),
		Columns: []string{"role", "database", "object", "statements", "last", "record"},
	}
	order, all := a.tables()
	for _, k := range order {
		if u := all[k]; u.count > 0 && u.count+u.earlier.count <= rare && u.first.Time < a.NewSince {
			s.add(k.role, k.db, k.name, u.count, stamp(u.last.Time), u.last)
		}
	}
	return s
}

func (a *access) newAddresses() *Section {
	s := &Section{
		Key: "new_addresses", Title: "New addresses", Empty: "None.",
		Note:    "A user logged in from an address since " + text(stamp(a.NewSince)) + ", and from others only before.",
		Columns: []string{"user", "address", "sessions", "first", "record"},
	}
	before := map[string]bool{}
	var fresh []login
	for l, u := range a.found.logins {
		if l.refused || !a.wanted(l.user) {
			continue
		}
		if u.first.Time < a.NewSince {
			before[l.user] = true
		} else {
			fresh = append(fresh, l)
		}
	}
	slices.SortFunc(fresh, func(x, y login) int { return cmp.Or(cmp.Compare(x.user, y.user), cmp.Compare(x.client, y.client)) })
	for _, l := range fresh {
		if u := a.found.logins[l]; before[l.user] {
			s.add(l.user, l.client, u.count, stamp(u.first.Time), u.first)
		}
	}
	return s
}

func (a *access) refused() *Section {
	s := &Section{
		Key: "refused", Title: "Refused for lack of a privilege", Empty: "None.",
		Columns: []string{"role", "database", "command", "objects", "statements", "last", "record"},
	}
	for _, st := range a.found.statements {
		if st.refused.count == 0 || st.earlier || !a.wanted(st.role) {
			continue
		}
		var names []string
		for _, r := range st.relations {
			names = append(names, r.name)
		}
		s.add(st.role, st.db, st.command, names, st.refused.count, stamp(st.refused.last.Time), st.refused.last)
	}
	return s
}

// ---- limits ----

func lengthOf(d time.Duration) string {
	const day = 24 * time.Hour
	switch {
	case d >= 2*day:
		return fmt.Sprintf("%d days", d/day)
	case d >= 2*time.Hour:
		return fmt.Sprintf("%d hours", d/time.Hour)
	case d >= 2*time.Minute:
		return fmt.Sprintf("%d minutes", d/time.Minute)
	}
	return fmt.Sprintf("%d seconds", d/time.Second)
}

// period is how long the period is: centuries at most, also if the times of records are not those of a server.
func (a *access) period() time.Duration {
	micros := min(max(float64(a.to)-float64(a.from), 0), float64(math.MaxInt64/time.Microsecond))
	return time.Duration(micros) * time.Microsecond
}

func (a *access) limits() (all []string) {
	say := func(format string, args ...any) { all = append(all, fmt.Sprintf(format, args...)) }
	const quarter = 92 * 24 * time.Hour
	if long := a.period(); long < quarter {
		say("The period is %s long: what is used once a month, a quarter or a year may be missing in it.", lengthOf(long))
	}
	if len(a.Apart) > 0 {
		say("What other servers have recorded in these trails is left out, also what this one has recorded before pg_upgrade. Their system identifiers: %s", strings.Join(a.Apart, ", "))
	} else if a.Grants.System == "" {
		say("The grants do not say of which server they are. That the trail is of the same one is not checked.")
	}
	all = append(all, a.Grants.unrestored()...)
	var dropped []string
	for k := range a.unknown {
		dropped = append(dropped, k[0]+": "+k[1])
	}
	if slices.Sort(dropped); len(dropped) > 0 {
		say("%d relations that were used are not among the grants, because they were dropped or renamed: %s", len(dropped), strings.Join(dropped[:min(len(dropped), 10)], ", "))
	}
	if len(a.lostRoles) > 0 {
		say("Roles that ran statements are not among the grants, and no record says why, so memberships of roles without statements are not reviewed: %s", strings.Join(slices.Sorted(maps.Keys(a.lostRoles)), ", "))
	}
	changed := seen{}
	for _, s := range a.found.statements {
		if !s.earlier && s.class == "role" {
			changed.join(s.worked)
		}
	}
	if changed.count > 0 {
		say("The grants are those of one moment. %d statements about roles and privileges changed them in the period, the last one at %s (%s).", changed.count, text(stamp(changed.last.Time)), changed.last)
	}
	if len(a.incomplete) > 0 {
		say("Records that leave out relations or objects make the rights of some roles undecided.")
	}
	if len(a.elsewhere) > 0 {
		say("Memberships are not reviewed, because statements may have used them in databases of which there are no grants: %s", strings.Join(slices.Sorted(maps.Keys(a.elsewhere)), ", "))
	}
	if in := a.Grants.Inside(); len(in) < len(a.Grants.Databases) {
		say("Only databases %s were reviewed: the grants say nothing of the inside of others.", strings.Join(in, ", "))
	}
	say("Privileges on types, languages, foreign servers, tablespaces, parameters, large objects and functions of the system, and default privileges, are not reviewed.")
	say("Memberships may matter where no record shows it: in pg_hba.conf, and in functions that ask for them.")
	return all
}
