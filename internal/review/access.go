// The access review: compares the privileges that were granted with those that recorded statements needed.

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

// AccessOptions are the question of an access review.
type AccessOptions struct {
	Source
	Grants *Grants
	// Roles restricts the answer to these roles; empty: all.
	Roles []string
	// NewSince is the time from which first uses count as new access; format.MinTime: the last tenth of the period.
	NewSince int64
	// Reduced are the grants of a dry run, which checks whether they allow the recorded statements; nil: no dry run.
	// Applied counts what the script did that reduced them.
	Reduced *Grants
	Applied *Applied
	// OtherServers are the system identifiers of other servers that wrote parts of the trails, which are left out.
	OtherServers []string
}

// Access is a finished access review, with what WriteScript needs.
type Access struct {
	*Document
	policy          *policy
	unused          []*grant
	idleMemberships []*membership // that no statement needed
	recordsMissing  bool          // part of the period was not recorded, or cannot be read
	periodText      string
}

// fewStatements is the largest number of statements that counts as rare access.
const fewStatements = 3

// mostRows is the limit of rows in a table.
const mostRows = 10_000

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
	var warnings warningCollector
	warn := o.Warn
	o.Warn = func(err error) {
		if warnings.warn(err) {
			warn(err)
		}
	}
	// Records before the period are read, too: they show when an unused privilege was last used.
	whole := o.Source
	lack, err := whole.read(ctx, trail.ScanOptions{Since: format.MinTime, Until: o.Until},
		proof.Needs{Objects: true}, visitors)
	if slices.ContainsFunc(collectors, func(c *collector) bool { return c.tooMany }) {
		return nil, fmt.Errorf("the period has more than %d different statements: review a shorter one",
			mostStatements)
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
	doc := &Document{Review: "access", Incomplete: warnings.incomplete}
	doc.Facts = []Fact{
		{"period from", stamp(a.from)}, {"period until", stamp(a.to)},
		{"databases", o.Grants.KnownDatabases()}, {"grants of", o.Grants.Taken}, {"trail", o.Trails},
	}
	if o.Grants.System != "" {
		doc.Facts = append(doc.Facts, Fact{"server", o.Grants.System})
	}
	out := &Access{Document: doc, policy: a.policy, recordsMissing: lack.recordsMissing || warnings.incomplete ||
		len(o.OtherServers) > 0}
	out.periodText = fmt.Sprintf("from %s until %s", text(stamp(a.from)), text(stamp(a.to)))
	idle, kept := a.idleMembers(out)
	doc.Sections = []*Section{
		a.unusedGrants(out), a.unusedColumns(), a.undecided(), idle, kept, a.dormant(), a.newAccess(), a.rareAccess(),
		a.newAddresses(), a.refused(),
	}
	if o.Applied != nil {
		doc.Facts = append(doc.Facts, Fact{"script", o.Applied.String()})
	}
	if o.Reduced != nil {
		doc.Sections = append([]*Section{a.dryRun(newPolicy(o.Reduced), out.recordsMissing)}, doc.Sections...)
	}
	doc.Limits = append(append(warnings.list, a.limits()...), lack.exclusions...)
	if a.found.forgetsEarlier {
		doc.Limits = append(doc.Limits, fmt.Sprintf("Before the period, the trail has more than %d different "+
			"statements: the time of an earlier use may be missing, and an access called new that is not.",
			mostStatements))
	}
	doc.Warnings = a.unknownRoles()
	return out, nil
}

// access is a review in progress.
type access struct {
	*AccessOptions
	policy   *policy
	found    *trailUses
	from, to int64

	active           map[string]bool // roles with statements, and the roles whose privileges these have
	incomplete       map[string]bool // roles with records that leave out relations or objects
	unknownRelations map[[2]string]*uses
	usedOutside      map[string]bool // databases with statements, whose contents the grants do not have
	vagueSequences   map[string]bool // databases in which sequences are named by parameters
	renames          *renames
	// roles with statements that are not among the grants, although no record renames or drops them
	lostRoles     map[string]bool
	ranStatements map[string]bool    // roles of statements of the period, under all their names
	connected     map[[2]string]bool // databases and users with a login in the period
	unseenLosses  map[string]string  // cache of unseenLoss, by role and database
}

// evaluate marks the grants and memberships that statements used.
func (a *access) evaluate() {
	a.active, a.incomplete, a.unknownRelations, a.vagueSequences, a.usedOutside = map[string]bool{}, map[string]bool{},
		map[[2]string]*uses{}, map[string]bool{}, map[string]bool{}
	a.lostRoles, a.ranStatements, a.connected = map[string]bool{}, map[string]bool{}, map[[2]string]bool{}
	a.renames = newRenames(a.found.statements)
	for _, s := range a.found.statements {
		variants := a.renames.variants(s)
		if !s.earlier {
			for _, v := range variants {
				a.ranStatements[v.user], a.ranStatements[v.role] = true, true
			}
		}
		if s.accepted.count == 0 {
			continue
		}
		for _, v := range variants {
			a.evaluateStatement(v)
		}
		a.noteUnknown(s, variants)
		a.noteLost(s, variants)
	}
}

// evaluateStatement marks what one variant of a statement used.
func (a *access) evaluateStatement(s *statement) {
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
	if !s.nested { // also if the session began before the period: its user will log in again
		p.check(&need{role: s.user, db: s.db, kind: onDatabase, object: s.db, letter: 'c'}, s)
	}
	if s.command == "connect" && len(s.relations) == 0 {
		if !s.earlier {
			a.connected[[2]string{s.db, s.user}] = true
		}
		return
	}
	if !s.earlier && p.inside[s.db] == nil &&
		(s.usesRelations() || len(s.objects)+len(s.executes) > 0 && !p.isSuperuser(s.role)) {
		a.usedOutside[s.db] = true
	}
	if s.user != s.role && !p.isSuperuser(s.user) {
		p.useMembership(s.user, s.role, s.db, true, s)
	}
	if s.setRole != "" {
		for _, role := range a.renames.globalNames("role", s.setRole) {
			p.useMembership(s.user, role, s.db, true, s)
		}
	}
	if s.dependsOnMembers {
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
	if s.changesOwner() || s.command == "ALTER DEFAULT PRIVILEGES" { // of a role of which it is a member
		for other := range p.rolesOf(s.role, s.db, true) {
			p.useMembership(s.role, other, s.db, true, s)
		}
	}
	if slices.Contains(s.sequences, "") {
		a.vagueSequences[s.db] = true
	}
	for _, n := range p.needs(s) {
		p.check(&n, s)
	}
}

// usesRelations reports whether a statement uses relations other than the system's and views of pg_steno.
func (s *statement) usesRelations() bool {
	return slices.ContainsFunc(s.relations, func(r usedRelation) bool {
		return !isSystemSchema(schemaOf(r.name)) && schemaOf(r.name) != "steno"
	})
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
			if a.unknownRelations[key] == nil {
				a.unknownRelations[key] = &uses{}
			}
			a.unknownRelations[key].mark(s)
		}
	}
}

// isRequested reports whether the answer is about a role.
func (a *access) isRequested(role string) bool {
	return len(a.Roles) == 0 || slices.Contains(a.Roles, role) || role == "" && slices.Contains(a.Roles, "PUBLIC")
}

// unknownRoles returns a warning for each requested role that is neither among the grants nor in the trail.
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
			all = append(all, fmt.Sprintf("no role of the name %q is among the grants or in the trail; nearest: %q",
				role, query.Nearest(role, names)))
		}
	}
	return all
}

// reviewed reports whether the answer covers a grant. Those of owners, superusers, the system and extensions are left
// out.
func (a *access) reviewed(g *grant) bool {
	return !g.extension && g.grantee != g.owner && !a.policy.isSuperuser(g.grantee) &&
		!strings.HasPrefix(g.grantee, "pg_") &&
		a.isRequested(g.grantee) && a.policy.inside[g.db] != nil
}

// reasonUndecided returns why the trail cannot show that a grant was unused; empty if it can.
func (a *access) reasonUndecided(g *grant) string {
	if why := cmp.Or(g.lost, a.policy.reasonNotRestored(g.db, g.kind)); why != "" {
		return why
	}
	if why := a.reasonHidden(g); why != "" {
		return why
	}
	if !a.active[g.grantee+"\x00"+g.db] && g.grantee != "" {
		return ""
	}
	switch {
	case a.incomplete[g.grantee]:
		return "records of the role leave out relations or objects"
	case g.kind == onSequence && (g.letter == 'U' || g.letter == 'w' || g.letter == 'r') &&
		a.active[g.grantee+"\x00"+g.db]:
		return "records do not name the sequences that functions, triggers and parameters use"
	case g.kind == onFunction && g.sqlBody && a.active[g.grantee+"\x00"+g.db]:
		return "functions in SQL that the planner inlines are not recorded"
	case g.kind == onSchema && g.letter == 'U':
		return a.reasonHiddenInSchema(g)
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

// sortedGrants returns the reviewed grants in the order of the answer.
func (a *access) sortedGrants() []*grant {
	all := slices.DeleteFunc(slices.Clone(a.policy.grants), func(g *grant) bool { return !a.reviewed(g) })
	slices.SortStableFunc(all, func(x, y *grant) int {
		return cmp.Or(cmp.Compare(x.grantee, y.grantee), cmp.Compare(x.db, y.db), cmp.Compare(x.kind, y.kind),
			cmp.Compare(x.object, y.object), cmp.Compare(x.column, y.column))
	})
	return all
}

// lastUse returns the time of the last use before the period, or nil.
func (u *uses) lastUse() any {
	if u.earlier.count == 0 {
		return nil
	}
	return stamp(u.earlier.last.Time)
}

func (a *access) unusedGrants(out *Access) *Section {
	s := &Section{
		Key: "unused", Title: "Granted and never used", Empty: "Every privilege was used.",
		Note: "No statement of the period needed these, as far as the trail can tell. An earlier use is one " +
			"before the period.",
		Columns: []string{"role", "database", "kind", "object", "column", "privilege", "grantor", "earlier_use",
			"record", "follow"},
	}
	for _, g := range a.sortedGrants() {
		if g.used.count > 0 || a.reasonUndecided(g) != "" {
			continue
		}
		out.unused = append(out.unused, g)
		s.add(roleName(g.grantee), g.db, kindName(g), g.object, orNil(g.column), privilegeName(g.letter), g.grantor,
			g.used.lastUse(), lastRecord(&g.used), a.catForGrant(g))
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

// catForGrant returns the command that shows the records which may have used a grant.
func (a *access) catForGrant(g *grant) string {
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
	return a.catCommand(c)
}

// membersOf returns some of the roles that inherit a role's privileges.
func (a *access) membersOf(role string) (found []string) {
	for _, e := range a.policy.memberships {
		if e.Role == role && e.inherits && len(found) < 8 {
			found = append(found, e.Member)
		}
	}
	return found
}

func (a *access) unusedColumns() *Section {
	s := &Section{
		Key: "columns", Title: "Columns that were never used under a privilege on the whole table", Empty: "None.",
		Note: "A privilege on the columns used would have been enough.",
		Columns: []string{"role", "database", "object", "privilege", "columns_used", "columns_never_used",
			"statements", "last_use", "record"},
	}
	for _, g := range a.sortedGrants() {
		if g.kind != onRelation || g.column != "" || g.used.count == 0 || g.allColumns || g.columnsUnknown ||
			strings.IndexByte("raw", g.letter) < 0 {
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
			s.add(roleName(g.grantee), g.db, g.object, privilegeName(g.letter), usedColumns, never, g.used.count,
				stamp(g.used.last.Time), g.used.last)
		}
	}
	return s
}

func (a *access) undecided() *Section {
	s := &Section{
		Key: "undecided", Title: "Not seen, but the trail cannot know", Empty: "None.",
		Columns: []string{"role", "database", "kind", "object", "privilege", "reason"},
	}
	for _, g := range a.sortedGrants() {
		if why := a.reasonUndecided(g); g.used.count == 0 && why != "" {
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
	active := maps.Clone(a.ranStatements)
	for _, g := range a.policy.grants {
		if g.used.count > 0 {
			active[g.grantee] = true
		}
	}
	for _, e := range a.policy.memberships {
		if e.used.count > 0 {
			active[e.Role] = true
		}
	}
	refused := map[string]*occurrences{}
	for l, u := range a.found.logins {
		if l.refused {
			if refused[l.user] == nil {
				refused[l.user] = &occurrences{}
			}
			refused[l.user].join(*u)
		} else {
			for _, name := range a.renames.globalNames("role", l.user) {
				active[name] = true
			}
		}
	}
	for _, r := range a.Grants.Roles {
		if active[r.Name] || strings.HasPrefix(r.Name, "pg_") || !a.isRequested(r.Name) {
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

func (a *access) tableUses() (order []tableUse, all map[tableUse]*uses) {
	all = map[tableUse]*uses{}
	for _, s := range a.found.statements {
		if s.accepted.count == 0 || !a.isRequested(s.role) {
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
			all[k].mark(s)
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
		Note: "First use of a relation by a role since " + text(stamp(a.NewSince)) +
			"; the role did not use it before.",
		Columns: []string{"role", "database", "object", "statements", "first", "record", "follow"},
	}
	order, all := a.tableUses()
	for _, k := range order {
		if u := all[k]; u.count > 0 && u.earlier.count == 0 && u.first.Time >= a.NewSince {
			s.add(k.role, k.db, k.name, u.count, stamp(u.first.Time), u.first,
				a.catCommand(query.Criteria{Databases: []string{k.db}, Roles: []string{k.role},
					Objects: []string{k.name}}))
		}
	}
	return s
}

func (a *access) rareAccess() *Section {
	s := &Section{
		Key: "rare", Title: "Unusual access", Empty: "None.",
		Note:    fmt.Sprintf("A role used a relation in at most %d statements.", fewStatements),
		Columns: []string{"role", "database", "object", "statements", "last", "record"},
	}
	order, all := a.tableUses()
	for _, k := range order {
		if u := all[k]; u.count > 0 && u.count+u.earlier.count <= fewStatements && u.first.Time < a.NewSince {
			s.add(k.role, k.db, k.name, u.count, stamp(u.last.Time), u.last)
		}
	}
	return s
}

func (a *access) newAddresses() *Section {
	s := &Section{
		Key: "new_addresses", Title: "New addresses", Empty: "None.",
		Note: "A user logged in from an address since " + text(stamp(a.NewSince)) +
			", and from others only before.",
		Columns: []string{"user", "address", "sessions", "first", "record"},
	}
	before := map[string]bool{}
	var fresh []login
	for l, u := range a.found.logins {
		if l.refused || !a.isRequested(l.user) {
			continue
		}
		if u.first.Time < a.NewSince {
			before[l.user] = true
		} else {
			fresh = append(fresh, l)
		}
	}
	slices.SortFunc(fresh, func(x, y login) int {
		return cmp.Or(cmp.Compare(x.user, y.user), cmp.Compare(x.client, y.client))
	})
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
		if st.refused.count == 0 || st.earlier || !a.isRequested(st.role) {
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

// period returns the length of the period. It is capped, because times in damaged records may be centuries apart.
func (a *access) period() time.Duration {
	micros := min(max(float64(a.to)-float64(a.from), 0), float64(math.MaxInt64/time.Microsecond))
	return time.Duration(micros) * time.Microsecond
}

func (a *access) limits() (all []string) {
	say := func(format string, args ...any) { all = append(all, fmt.Sprintf(format, args...)) }
	const quarter = 92 * 24 * time.Hour
	if long := a.period(); long < quarter {
		say("The period is %s long: what is used once a month, a quarter or a year may be missing in it.",
			lengthOf(long))
	}
	if len(a.OtherServers) > 0 {
		say("What other servers have recorded in these trails is left out, also what this one has recorded before "+
			"pg_upgrade. Their system identifiers: %s", strings.Join(a.OtherServers, ", "))
	} else if a.Grants.System == "" {
		say("The grants do not say of which server they are. That the trail is of the same one is not checked.")
	}
	all = append(all, a.Grants.restoreLimits()...)
	var dropped []string
	for k := range a.unknownRelations {
		dropped = append(dropped, k[0]+": "+k[1])
	}
	if slices.Sort(dropped); len(dropped) > 0 {
		say("%d relations that were used are not among the grants, because they were dropped or renamed: %s",
			len(dropped), strings.Join(dropped[:min(len(dropped), 10)], ", "))
	}
	if len(a.lostRoles) > 0 {
		say("Roles that ran statements are not among the grants, and no record says why, so memberships of roles "+
			"without statements are not reviewed: %s", strings.Join(slices.Sorted(maps.Keys(a.lostRoles)), ", "))
	}
	changed := occurrences{}
	for _, s := range a.found.statements {
		if !s.earlier && s.class == "role" {
			changed.join(s.accepted)
		}
	}
	if changed.count > 0 {
		say("The grants are those of one moment. %d statements about roles and privileges changed them in the "+
			"period, the last one at %s (%s).", changed.count, text(stamp(changed.last.Time)), changed.last)
	}
	if len(a.incomplete) > 0 {
		say("Records that leave out relations or objects make the rights of some roles undecided.")
	}
	if len(a.usedOutside) > 0 {
		say("Memberships are not reviewed, because statements may have used them in databases of which there are no "+
			"grants: %s", strings.Join(slices.Sorted(maps.Keys(a.usedOutside)), ", "))
	}
	if in := a.Grants.KnownDatabases(); len(in) < len(a.Grants.Databases) {
		say("Only databases %s were reviewed: the grants say nothing of the inside of others.", strings.Join(in, ", "))
	}
	say("Privileges on types, languages, foreign servers, tablespaces, parameters, large objects and functions of " +
		"the system, and default privileges, are not reviewed.")
	say("Memberships may matter where no record shows it: in pg_hba.conf, and in functions that ask for them.")
	return all
}
