// What is asked of records: values of types, and the one list of the filters that have some.
//
// A new filter is a field of Criteria, a line of lists, and its condition in condition.go;
// internal/command/flags gives it a flag.

package query

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"time"

	"github.com/pg-steno/pg_steno/internal/format"
	"github.com/pg-steno/pg_steno/internal/statement"
)

// Criteria choose records. All fields that are set must match; of a list, one value must match. All values are
// valid, because the functions that parse them refuse others.
type Criteria struct {
	// Names and texts are compared exactly; an empty one matches records without a value.
	Users, Roles, AppUsers, Identities, AppContexts, Databases, Applications []string

	Clients  []Client
	Sessions []format.SessionID // with their starts to the second, and with their parallel workers
	Classes  []format.Class
	Kinds    []format.Kind
	// Commands are the first words of command tags, in any case.
	Commands []string
	// Objects are names of relations, columns and objects as SQL writes them, with or without a schema. *
	// matches any characters.
	Objects []string
	// Audited are reasons for which records were written, one bit in each value.
	Audited   []format.Audited
	Grep      []*regexp.Regexp // matched with text, message, and each parameter
	XIDs      []uint64         // the lower 32 bits are sufficient
	SQLStates []SQLState
	// Fingerprints are values of statement.Fingerprint.
	Fingerprints []uint64

	Failed bool
	// MinDuration is the minimum duration; nil: records without a duration match, too.
	MinDuration *time.Duration
	// TopLevel excludes statements that functions and triggers ran.
	TopLevel bool
	// OffHours excludes records within the working hours of a zone: see statement.OffHours. Nil: excludes none.
	OffHours *time.Location

	// Not excludes records that match one of its lists. Its other fields are ignored.
	Not *Criteria
}

// List is a filter that consists of a list of values.
type List struct {
	// Name is the name of a value in questions and on command lines, Field that of the list in files such as
	// proofs. A proof cannot be asked for a list without a Field.
	Name, Field string

	add       func(c *Criteria, value string) error
	values    func(*Criteria) []string
	copy      func(*Criteria)
	condition func(*Criteria) condition // called for lists that are not empty
}

// list returns the List for a field: how values are parsed and formatted, and the condition for them.
func list[T any](
	name, field string, of func(*Criteria) *[]T, read func(string) (T, error), write func(T) string,
	ask func([]T) condition,
) List {
	return List{
		Name: name, Field: field,
		add: func(c *Criteria, value string) error {
			v, err := read(value)
			if err == nil {
				*of(c) = append(*of(c), v)
			}
			return err
		},
		values: func(c *Criteria) (all []string) {
			for _, v := range *of(c) {
				all = append(all, write(v))
			}
			return all
		},
		copy:      func(c *Criteria) { *of(c) = slices.Clone(*of(c)) },
		condition: func(c *Criteria) condition { return ask(*of(c)) },
	}
}

// words returns the List for names or texts, all of which are valid.
func words(name, field string, of func(*Criteria) *[]string, ask func([]string) condition) List {
	same := func(s string) string { return s }
	return list(name, field, of, func(s string) (string, error) { return s, nil }, same, ask)
}

// lists has all filters with lists of values. Filters that are cheap to evaluate and exclude many records come
// first.
var lists = []List{
	list("kind", "Kinds", func(c *Criteria) *[]format.Kind {
		return &c.Kinds
	}, ParseKind, format.Kind.String, isOfKind),
	list("class", "Classes", func(c *Criteria) *[]format.Class {
		return &c.Classes
	}, ParseClass, format.Class.String, isOfClass),
	words("command", "Commands", func(c *Criteria) *[]string { return &c.Commands }, isCommand),
	words("object", "Objects", func(c *Criteria) *[]string { return &c.Objects }, usesObjects),
	list("audited", "Audited", func(c *Criteria) *[]format.Audited {
		return &c.Audited
	}, ParseReason, nameOfReason, isAudited),
	words("user", "Users", func(c *Criteria) *[]string { return &c.Users }, hasUser),
	words("app-user", "AppUsers", func(c *Criteria) *[]string {
		return &c.AppUsers
	}, hasFact(format.KeyAppUser, format.TermsAppUsers)),
	words("identity", "Identities", func(c *Criteria) *[]string {
		return &c.Identities
	}, hasUnindexedFact(format.KeyIdentity)),
	words("app-context", "AppContexts", func(c *Criteria) *[]string {
		return &c.AppContexts
	}, hasUnindexedFact(format.KeyAppContext)),
	words("database", "Databases", func(c *Criteria) *[]string {
		return &c.Databases
	}, hasFact(format.KeyDatabase, format.TermsDatabases)),
	words("application", "Applications", func(c *Criteria) *[]string {
		return &c.Applications
	}, hasFact(format.KeyApplication, format.TermsApplications)),
	words("role", "Roles", func(c *Criteria) *[]string { return &c.Roles }, hasRole),
	list("session", "Sessions", func(c *Criteria) *[]format.SessionID {
		return &c.Sessions
	}, ParseSession, format.SessionID.String, isOfSession),
	list("client", "Clients", func(c *Criteria) *[]Client {
		return &c.Clients
	}, ParseClient, Client.String, isOfClient),
	list("xid", "XIDs", func(c *Criteria) *[]uint64 { return &c.XIDs }, ParseXID, decimal, hasXID),
	list("sqlstate", "SQLStates", func(c *Criteria) *[]SQLState {
		return &c.SQLStates
	}, ParseSQLState, SQLState.String, hasSQLState),
	list("grep", "Grep", func(c *Criteria) *[]*regexp.Regexp {
		return &c.Grep
	}, regexp.Compile, (*regexp.Regexp).String, hasText),
	list("fingerprint", "", func(c *Criteria) *[]uint64 {
		return &c.Fingerprints
	}, statement.ParseFingerprint, fingerprint, hasFingerprint),
}

func decimal(n uint64) string { return strconv.FormatUint(n, 10) }

func fingerprint(n uint64) string { return fmt.Sprintf("%016x", n) }

// Lists returns all filters with lists of values.
func Lists() []List { return slices.Clone(lists) }

// Add parses values and adds them to a list. Its error quotes the value.
func (l *List) Add(c *Criteria, values ...string) error {
	for _, v := range values {
		if err := l.add(c, v); err != nil {
			return err
		}
	}
	return nil
}

// Values returns the values of a list in the form that Add parses.
func (l *List) Values(c *Criteria) []string { return l.values(c) }

// clone returns a deep copy.
func (c *Criteria) clone() *Criteria {
	n := *c
	for i := range lists {
		lists[i].copy(&n)
	}
	if c.MinDuration != nil {
		least := *c.MinDuration
		n.MinDuration = &least
	}
	if c.Not != nil {
		n.Not = c.Not.clone()
	}
	return &n
}
