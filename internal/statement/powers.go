// Which statements give somebody powers beyond privileges on objects.

package statement

import (
	"regexp"
	"slices"
	"strings"

	"github.com/pg-steno/pg_steno/internal/format"
)

// attributes are the attributes of roles that give powers beyond privileges.
var attributes = []string{"SUPERUSER", "CREATEROLE", "CREATEDB", "REPLICATION", "BYPASSRLS"}

// roleCommands create and change roles, and grant memberships.
var roleCommands = []string{"CREATE ROLE", "ALTER ROLE", "GRANT ROLE"}

// roleCatalogs have the attributes and memberships of roles.
var roleCatalogs = []string{"pg_catalog.pg_authid", "pg_catalog.pg_auth_members"}

var (
	// constants and comments, whose words do not count
	noWords = regexp.MustCompile(`(?s)'(?:[^']|'')*'|--[^\n]*|/\*.*?\*/`)
	words   = regexp.MustCompile(`"(?:[^"]|"")*"|[A-Za-z_][A-Za-z0-9_$]*`)
)

// GrantedPowers returns the powers that a statement gives to roles: attributes such as SUPERUSER, memberships in
// predefined roles such as pg_read_server_files, and direct changes of the catalogs of roles. It searches the words of
// the text, so a role whose unquoted name is SUPERUSER counts as well.
func GrantedPowers(r *format.Record) (all []string) {
	if r.Kind != format.KindStatement || r.Shape == nil {
		return nil
	}
	add := func(power string) {
		if !slices.Contains(all, power) {
			all = append(all, power)
		}
	}
	const changes = format.AccessInsert | format.AccessUpdate | format.AccessDelete
	for i := range r.Shape.Relations {
		if rel := &r.Shape.Relations[i]; rel.Access&changes != 0 && slices.Contains(roleCatalogs, string(rel.Name)) {
			add("direct change of " + string(rel.Name))
		}
	}
	if !slices.Contains(roleCommands, string(r.Shape.Command)) {
		return all
	}
	grants := string(r.Shape.Command) == "GRANT ROLE"
	for _, word := range words.FindAllString(noWords.ReplaceAllString(string(r.Text), " "), -1) {
		quoted := strings.HasPrefix(word, `"`)
		name := strings.ToLower(word)
		if quoted {
			name = strings.ReplaceAll(strings.Trim(word, `"`), `""`, `"`)
		}
		switch {
		case strings.HasPrefix(name, "pg_"):
			add(name)
		case !grants && !quoted && slices.Contains(attributes, strings.ToUpper(word)):
			add(strings.ToUpper(word))
		case grants && !quoted && name == "to":
			return all // the roles that get it follow
		}
	}
	return all
}
