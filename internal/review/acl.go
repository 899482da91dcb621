// PostgreSQL's access control lists (ACLs), and how GRANT and REVOKE change them.

package review

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// aclItem is an element of an ACL. An empty grantee is PUBLIC.
type aclItem struct {
	grantee, grantor string
	letters          string // of privileges
	options          string // of those with grant option
}

// privilegeLetters are the letters of aclitem.
var privilegeLetters = []struct {
	letter byte
	name   string
}{
	{'r', "SELECT"}, {'a', "INSERT"}, {'w', "UPDATE"}, {'d', "DELETE"}, {'D', "TRUNCATE"}, {'x', "REFERENCES"},
	{'t', "TRIGGER"}, {'m', "MAINTAIN"}, {'X', "EXECUTE"}, {'U', "USAGE"}, {'C', "CREATE"}, {'T', "TEMPORARY"},
	{'c', "CONNECT"}, {'s', "SET"}, {'A', "ALTER SYSTEM"},
}

func privilegeName(letter byte) string {
	for _, p := range privilegeLetters {
		if p.letter == letter {
			return p.name
		}
	}
	return "privilege " + string(rune(letter))
}

func privilegeLetter(name string) byte {
	for _, p := range privilegeLetters {
		if p.name == name {
			return p.letter
		}
	}
	return 0
}

// parseACLItem reads an aclitem: grantee=privileges/grantor. Names that are not of letters,
// digits and underscores are in double quotes.
func parseACLItem(s string) (a aclItem, err error) {
	rest := s
	name := func() string {
		var out []byte
		quoted := false
		for i := 0; i < len(rest); i++ {
			switch c := rest[i]; {
			case c == '"' && quoted && i+1 < len(rest) && rest[i+1] == '"':
				out = append(out, '"')
				i++
			case c == '"':
				quoted = !quoted
			case !quoted && (c == '=' || c == '/'):
				rest = rest[i:]
				return string(out)
			default:
				out = append(out, c)
			}
		}
		rest = ""
		return string(out)
	}
	a.grantee = name()
	if !strings.HasPrefix(rest, "=") {
		return a, fmt.Errorf("%q is not an element of an ACL", s)
	}
	rest = rest[1:]
	for len(rest) > 0 && rest[0] != '/' {
		a.letters += rest[:1]
		if len(rest) > 1 && rest[1] == '*' {
			a.options += rest[:1]
			rest = rest[1:]
		}
		rest = rest[1:]
	}
	if rest != "" {
		rest = rest[1:]
		a.grantor = name()
	}
	return a, nil
}

func (a aclItem) String() string {
	b := []byte(aclName(a.grantee) + "=")
	for _, c := range []byte(a.letters) {
		b = append(b, c)
		if strings.IndexByte(a.options, c) >= 0 {
			b = append(b, '*')
		}
	}
	return string(b) + "/" + aclName(a.grantor)
}

// aclName is a name in an aclitem.
func aclName(s string) string {
	for _, c := range []byte(s) {
		if !('a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '_') {
			return `"` + strings.ReplaceAll(s, `"`, `""`) + `"`
		}
	}
	return s
}

// grantACL adds privileges for a role to an ACL, as GRANT does.
func grantACL(acl []string, grantee, grantor, letters string, options bool) []string {
	for i, text := range acl {
		a, err := parseACLItem(text)
		if err != nil || a.grantee != grantee || a.grantor != grantor {
			continue
		}
		for _, c := range letters {
			if !strings.ContainsRune(a.letters, c) {
				a.letters += string(c)
			}
			if options && !strings.ContainsRune(a.options, c) {
				a.options += string(c)
			}
		}
		acl = slices.Clone(acl)
		acl[i] = a.String()
		return acl
	}
	a := aclItem{grantee: grantee, grantor: grantor, letters: letters}
	if options {
		a.options = letters
	}
	return append(slices.Clip(acl), a.String())
}

// withoutLetters returns s without these letters.
func withoutLetters(s, letters string) string {
	return strings.Map(func(c rune) rune {
		if strings.ContainsRune(letters, c) {
			return -1
		}
		return c
	}, s)
}

// commonLetters returns the letters that are in both lists.
func commonLetters(s, letters string) string { return withoutLetters(s, withoutLetters(s, letters)) }

// revocation is a REVOKE from one role.
type revocation struct {
	grantee, grantor, letters string
	onlyOption                bool
	// depends says what happens to privileges that the grantee has granted to others.
	depends dependents
	owner   string // of the object; never loses grant options
	// rolesHeldBy returns a role and the roles whose privileges it has.
	rolesHeldBy func(role string) map[string]bool
}

// dependents says what happens to privileges that a grantee has granted to others.
type dependents int

const (
	refuseDependents  dependents = iota // RESTRICT
	cascadeDependents                   // CASCADE
)

// errDependents is the error of a REVOKE without CASCADE.
var errDependents = errors.New("dependent privileges exist: the server refuses it without CASCADE")

// revokeACL removes what the grantor has granted, as the server's aclupdate() does. With CASCADE, if the grantee
// loses a grant option, what it has granted by that option is removed, too.
func revokeACL(acl []string, r revocation) (out []string, err error) {
	lost := ""
	for _, text := range acl {
		a, err := parseACLItem(text)
		if err == nil && a.grantee == r.grantee && a.grantor == r.grantor {
			lost += commonLetters(a.options, r.letters)
			a.options = withoutLetters(a.options, r.letters)
			if !r.onlyOption {
				a.letters = withoutLetters(a.letters, r.letters)
			}
			if a.letters == "" {
				continue
			}
			text = a.String()
		}
		out = append(out, text)
	}
	if lost == "" || r.grantee == r.owner {
		return out, nil
	}
	return r.revokeDependents(out, lost)
}

// revokeDependents removes what the grantee has granted by options that it no longer has.
func (r *revocation) revokeDependents(acl []string, lost string) ([]string, error) {
	if lost = withoutLetters(lost, optionsOf(acl, r.rolesHeldBy(r.grantee), r.owner)); lost == "" {
		return acl, nil
	}
	for _, text := range slices.Clone(acl) {
		a, err := parseACLItem(text)
		if err != nil || a.grantor != r.grantee || commonLetters(a.letters, lost) == "" {
			continue
		}
		if r.depends == refuseDependents {
			return nil, errDependents
		}
		dependent := *r
		dependent.grantee, dependent.grantor, dependent.letters, dependent.onlyOption = a.grantee,
			r.grantee, lost, false
		if acl, err = revokeACL(acl, dependent); err != nil {
			return nil, err
		}
	}
	return acl, nil
}

// allLetters are those of all privileges.
const allLetters = "arwdDxtmXUCTcsA"

// optionsOf returns the grant options of these roles. The owner has all.
func optionsOf(acl []string, roles map[string]bool, owner string) (letters string) {
	if roles[owner] {
		return allLetters
	}
	for _, text := range acl {
		if a, err := parseACLItem(text); err == nil && a.grantee != "" && roles[a.grantee] {
			letters += a.options
		}
	}
	return letters
}
