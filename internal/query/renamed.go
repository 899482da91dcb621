// Renames. Records have the names of their time, so a filter for a name does not find earlier or later records
// in which the same object has another name. Renames from or to such a name are therefore reported.

package query

import (
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/pg-steno/pg_steno/internal/format"
	"github.com/pg-steno/pg_steno/internal/render"
)

// renames are the names that a filter asks for or excludes and that statements can give to something else. Each
// list is one condition: it does not matter which of its names an object has.
type renames struct {
	objects          [][]glob
	roles, databases [][]string
	elsewhere        func(*format.Session) bool // whether a session is in another database than the filter's
}

// renames returns nil if there are no such names.
func (c *Criteria) renames() *renames {
	r := &renames{}
	add := func(to *[][]string, names []string) {
		if len(names) > 0 {
			*to = append(*to, names)
		}
	}
	for _, criteria := range []*Criteria{c, c.Not} {
		if criteria == nil {
			continue
		}
		if globs := globsOf(criteria.Objects); len(globs) > 0 {
			r.objects = append(r.objects, globs)
		}
		add(&r.roles, criteria.Users)
		add(&r.roles, criteria.Roles)
		add(&r.databases, criteria.Databases)
	}
	if len(r.objects)+len(r.roles)+len(r.databases) == 0 {
		return nil
	}
	r.elsewhere = func(s *format.Session) bool {
		database := string(s.Fact(format.KeyDatabase))
		return database != "" && (len(c.Databases) > 0 && !slices.Contains(c.Databases, database) ||
			c.Not != nil && slices.Contains(c.Not.Databases, database))
	}
	return r
}

// Renamed is what a record renames.
type Renamed struct {
	// To is empty if it is not known, because a catalog, which is Name, was changed directly, or because the
	// record leaves objects out.
	Type, Name, To string
	Time           int64
	User           string
	// Lost says that the filter's name is, or may be, the one before the rename.
	Lost bool
}

func (r *Renamed) by() string {
	if r.User == "" {
		return ""
	}
	return " by user " + render.Quoted(r.User)
}

func (r *Renamed) String() string {
	by := r.by()
	switch {
	case r.Name == "":
		return fmt.Sprintf("a statement at %s%s leaves out objects, and may have renamed what the filter asks for",
			render.Time(r.Time), by)
	case r.To == "":
		return fmt.Sprintf("%s was changed directly at %s%s, which may have renamed what the filter asks for", r.Name,
			render.Time(r.Time), by)
	}
	return fmt.Sprintf("%s %s was renamed to %s at %s%s: records have the names of their time", r.Type,
		render.Quoted(r.Name), render.Quoted(r.To), render.Time(r.Time), by)
}

// AsksNames returns whether the filter asks for names of objects, or of roles.
func (f *Filter) AsksNames() (objects, roles bool) {
	if f.watched == nil {
		return false, false
	}
	return len(f.watched.objects)+len(f.watched.databases) > 0, len(f.watched.roles) > 0
}

// Renames yields what a statement renames so that earlier or later records do not have the filter's name.
func (f *Filter) Renames(r *format.Record) func(yield func(Renamed) bool) {
	return func(yield func(Renamed) bool) {
		if f.watched == nil || r.Shape == nil || r.Kind != format.KindStatement {
			return
		}
		renamed := Renamed{Time: r.Time, User: string(r.Session.Fact(format.KeyUser))}
		for i := range r.Shape.Objects {
			o := &r.Shape.Objects[i]
			if o.Action != format.ActionRename || !f.watched.matchesOneName(o, r.Session) {
				continue
			}
			renamed.Type, renamed.Name, renamed.To = string(o.Type), string(o.Name), string(o.To)
			renamed.Lost = f.watched.losesName(o)
			if !yield(renamed) {
				return
			}
		}
	}
}

// AllRenames returns the same, and what may be a rename: a change of a catalog, and objects that are left out.
func (f *Filter) AllRenames(r *format.Record) []Renamed {
	if f.watched == nil || r.Shape == nil || r.Kind != format.KindStatement {
		return nil
	}
	all := slices.Collect(f.Renames(r))
	if renamed, ok := f.changedCatalog(r); ok {
		all = append(all, renamed)
	}
	if _, omits := r.ExtraValue("objects_omitted"); (omits || r.HasFurther()) &&
		hasCommand([]string{"ALTER"}, string(r.Shape.Command)) && !f.watched.elsewhere(r.Session) {
		all = append(all, Renamed{Time: r.Time, User: string(r.Session.Fact(format.KeyUser)), Lost: true})
	}
	return all
}

// changedCatalog returns the catalog that a statement has changed, perhaps with a name of the filter. A
// statement that has failed or has no transaction ID has changed nothing.
func (f *Filter) changedCatalog(r *format.Record) (renamed Renamed, ok bool) {
	if r.Outcome == format.OutcomeError || r.Outcome == format.OutcomeOk && r.XID == 0 {
		return renamed, false
	}
	i := slices.IndexFunc(r.Shape.Relations, func(rel format.Relation) bool {
		return f.watched.mayRename(&rel) && !(isOfDatabase(&rel) && f.watched.elsewhere(r.Session))
	})
	if i < 0 {
		return renamed, false
	}
	return Renamed{
		Time: r.Time,
		User: string(r.Session.Fact(format.KeyUser)),
		Name: string(r.Shape.Relations[i].Name),
		Lost: true,
	}, true
}

// MayRename returns whether a record that was not joined with its data parts may have renamed something.
func (f *Filter) MayRename(r *format.Record) bool {
	return f.watched != nil && r.Kind == format.KindStatement && r.HasFurther() && r.Shape != nil &&
		(r.Shape.Class == format.ClassDDL || r.Shape.Class == format.ClassRole)
}

// selectRenames selects the groups of an index that may have statements that rename these names.
func (w *renames) selectRenames(c *format.Contents) format.Groups {
	g := c.Select(format.TermsObjects, func(v []byte) bool {
		return len(v) == 0 || format.Action(v[0]) == format.ActionRename && w.mayName(v[1:])
	})
	g.And(c.Select(format.TermsClasses, func(v []byte) bool { // indexes never omit classes
		class, n := binary.Uvarint(v)
		return n != len(v) || format.Class(class) == format.ClassDDL || format.Class(class) == format.ClassRole
	}))
	return g
}

// SelectRenames selects the groups of an index that may have statements that rename the filter's names, or
// change a catalog: those that Hidden.NoteRenames notes. Contents does not select changes of catalogs, because
// lists of relations are often too long for an index.
func (f *Filter) SelectRenames(c *format.Contents) format.Groups {
	g := c.SelectOmissions("objects")
	g.Or(f.watched.selectRenames(c))
	g.Or(c.SelectShape(func(s *format.Shape) bool {
		return slices.ContainsFunc(s.Relations, func(r format.Relation) bool { return f.watched.mayRename(&r) })
	}))
	return g
}

// isRename returns whether statements with a shape may be ones of Renames.
func (f *Filter) isRename(s *format.Shape) bool {
	return slices.ContainsFunc(s.Objects, func(o format.Object) bool {
		return o.Action == format.ActionRename && (f.watched.mayName(o.Name) || f.watched.mayName(o.To))
	})
}

// mayName returns whether the filter may ask for a name, of any type, or for one that begins with it.
func (w *renames) mayName(name []byte) bool {
	plain := unquoted(name)
	lists := func(names []string) bool { return slices.Contains(names, plain) }
	return slices.ContainsFunc(w.roles, lists) || slices.ContainsFunc(w.databases, lists) ||
		slices.ContainsFunc(w.objects, func(globs []glob) bool {
			whole, parts := restsAfter(globs, name, false)
			return whole || len(parts) > 0
		})
}

// matchesOneName returns whether the filter matches a renamed object under one of its names, but not under the
// other.
func (w *renames) matchesOneName(o *format.Object, s *format.Session) bool {
	return (isShared(string(o.Type)) || !w.elsewhere(s)) && w.distinguishes(o)
}

// isShared returns whether all databases share the names of a type of objects.
func isShared(objectType string) bool {
	return objectType == "role" || objectType == "database" || objectType == "tablespace"
}

// distinguishes does so for an object in a database of the filter.
func (w *renames) distinguishes(o *format.Object) bool {
	was, is := unquoted(o.Name), unquoted(o.To)
	changes := func(names []string) bool { return slices.Contains(names, was) != slices.Contains(names, is) }
	if string(o.Type) == "role" && slices.ContainsFunc(w.roles, changes) ||
		string(o.Type) == "database" && slices.ContainsFunc(w.databases, changes) {
		return true
	}
	return slices.ContainsFunc(w.objects, func(globs []glob) bool {
		schema := string(o.Type) == "schema"
		whole, parts := restsAfter(globs, o.Name, schema)
		whole2, parts2 := restsAfter(globs, o.To, schema)
		return whole != whole2 || !maps.Equal(parts, parts2)
	})
}

// losesName returns whether the filter matches a renamed object, or something in it, under its old name.
func (w *renames) losesName(o *format.Object) bool {
	was := unquoted(o.Name)
	wasNamed := func(names []string) bool { return slices.Contains(names, was) }
	switch string(o.Type) {
	case "role":
		if slices.ContainsFunc(w.roles, wasNamed) {
			return true
		}
	case "database":
		if slices.ContainsFunc(w.databases, wasNamed) {
			return true
		}
	}
	return slices.ContainsFunc(w.objects, func(globs []glob) bool {
		whole, parts := restsAfter(globs, o.Name, string(o.Type) == "schema")
		return whole || len(parts) > 0
	})
}

// catalogs are the catalogs that have names, and whether each database has its own.
var catalogs = map[string]bool{
	"pg_catalog.pg_authid": false, "pg_catalog.pg_database": false, "pg_catalog.pg_subscription": false,
	"pg_catalog.pg_tablespace": false,
	"pg_catalog.pg_am":         true, "pg_catalog.pg_attribute": true, "pg_catalog.pg_class": true,
	"pg_catalog.pg_collation":  true,
	"pg_catalog.pg_constraint": true, "pg_catalog.pg_conversion": true, "pg_catalog.pg_event_trigger": true,
	"pg_catalog.pg_extension":            true,
	"pg_catalog.pg_foreign_data_wrapper": true, "pg_catalog.pg_foreign_server": true, "pg_catalog.pg_language": true,
	"pg_catalog.pg_namespace": true,
	"pg_catalog.pg_opclass":   true, "pg_catalog.pg_operator": true, "pg_catalog.pg_opfamily": true,
	"pg_catalog.pg_policy": true,
	"pg_catalog.pg_proc":   true, "pg_catalog.pg_propgraph_element": true, "pg_catalog.pg_publication": true,
	"pg_catalog.pg_rewrite":       true,
	"pg_catalog.pg_statistic_ext": true, "pg_catalog.pg_trigger": true, "pg_catalog.pg_ts_config": true,
	"pg_catalog.pg_ts_dict":   true,
	"pg_catalog.pg_ts_parser": true, "pg_catalog.pg_ts_template": true, "pg_catalog.pg_type": true,
}

func isOfDatabase(r *format.Relation) bool { return catalogs[string(r.Name)] }

// mayRename returns whether a statement that uses a relation in this way may have renamed something, as
// superusers can with allow_system_table_mods.
func (w *renames) mayRename(r *format.Relation) bool {
	if r.Access&(format.AccessInsert|format.AccessUpdate|format.AccessDelete) == 0 || onlyLocks(r) {
		return false
	}
	switch string(r.Name) {
	case "pg_catalog.pg_authid":
		return len(w.roles) > 0
	case "pg_catalog.pg_database":
		return len(w.databases) > 0
	}
	_, named := catalogs[string(r.Name)]
	return named && len(w.objects) > 0
}

// onlyLocks returns whether a relation is used by SELECT ... FOR UPDATE or FOR SHARE, which need the privilege
// to update, but update no column.
func onlyLocks(r *format.Relation) bool {
	return r.Access&(format.AccessInsert|format.AccessUpdate|format.AccessDelete) == format.AccessUpdate &&
		r.HasColumns && r.Omitted&format.AccessUpdate == 0 &&
		!slices.ContainsFunc(r.Columns, func(c format.Column) bool { return c.Access&format.AccessUpdate != 0 })
}

// unquoted returns a name of one part without the quotes of SQL.
func unquoted(name []byte) string {
	if n := len(name); n > 1 && name[0] == '"' && name[n-1] == '"' {
		return strings.ReplaceAll(string(name[1:n-1]), `""`, `"`)
	}
	return string(name)
}

// ---- patterns, and the beginnings of what they match ----

// glob is a pattern for names: "*" matches any characters.
type glob string

// globsOf returns the patterns for names of objects.
func globsOf(names []string) (all []glob) {
	for _, name := range names {
		for _, spelled := range spellings(name) {
			all = append(all, glob(spelled))
		}
	}
	return all
}

// restsAfter returns whether one of the patterns matches a name, and which patterns remain for what follows the
// name and a dot. The name is also matched without its schema, unless it is that of a schema.
func restsAfter(globs []glob, name []byte, schema bool) (whole bool, parts map[glob]bool) {
	parts = map[glob]bool{}
	for _, g := range globs {
		at := g.after(g.begin(), name)
		also := func(other []byte) {
			if len(other) < len(name) {
				for i, in := range g.after(g.begin(), other) {
					at[i] = at[i] || in
				}
			}
		}
		also(withoutArguments(name))
		if !schema {
			also(unqualified(name))
			also(unqualified(withoutArguments(name)))
		}
		whole = whole || at[len(g)]
		for i, in := range g.after(at, []byte(".")) {
			if in {
				parts[g[i:]] = true
			}
		}
	}
	return whole, parts
}

// begin returns the positions in the pattern before anything is matched.
func (g glob) begin() []bool {
	at := make([]bool, len(g)+1)
	at[0] = true
	return g.skip(at)
}

// after returns the possible positions in the pattern after a text, from some positions on.
func (g glob) after(at []bool, text []byte) []bool {
	for _, c := range text {
		next := make([]bool, len(at))
		for i := range len(g) {
			switch {
			case !at[i]:
			case g[i] == '*':
				next[i] = true
			case g[i] == c:
				next[i+1] = true
			}
		}
		at = g.skip(next)
	}
	return at
}

// skip adds the positions after wildcards, which can match nothing.
func (g glob) skip(at []bool) []bool {
	for i := range len(g) {
		at[i+1] = at[i+1] || at[i] && g[i] == '*'
	}
	return at
}
