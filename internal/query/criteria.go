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

// Criteria choose records. All that are set must hold; of a list, one value must match. The values are valid
// because the functions that read them from texts refuse all others.
type Criteria struct {
	// Names and texts are compared as they are; an empty one means that a record has none.
	Users, Roles, AppUsers, Identities, AppContexts, Databases, Applications []string

	Clients  []Client
	Sessions []format.SessionID // to the second of their starts, with their parallel workers
	Classes  []format.Class
	Kinds    []format.Kind
	// Commands are the first words of command tags, without regard to case.
	Commands []string
	// Objects are names of relations, columns and objects, as SQL has them, with or without a schema; * matches any
	// characters.
	Objects []string
	// Audited are reasons for which a record was written, one in each value.
	Audited   []format.Audited
	Grep      []*regexp.Regexp // of text, message, and each parameter
	XIDs      []uint64         // 32 bits of one are enough
	SQLStates []SQLState
	// Fingerprints are those of statement.Fingerprint.
	Fingerprints []uint64

	Failed bool
	// MinDuration is the least duration; nil: records without one are chosen, too.
	MinDuration *time.Duration
	// TopLevel leaves out what functions and triggers ran.
	TopLevel bool
	// OffHours leaves out what started in working hours of a zone: see statement.OffHours; nil: nothing.
	OffHours *time.Location

	// Not excludes what one of its lists matches; the rest of it means nothing.
	Not *Criteria
}

// List is a filter with a list of values.
type List struct {
	// Name is that of a value in questions and on command lines, and Field that of the list in files, such as
	// proofs. Without a Field, it is no part of questions that are proved.
	Name, Field string

	add       func(c *Criteria, value string) error
	values    func(*Criteria) []string
	copy      func(*Criteria)
	condition func(*Criteria) condition // of a list that is not empty
}

// list makes a List of a field: how a value is read from a text, how it is written, and the condition of some.
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

// words makes a List of names or texts, which all are valid.
func words(name, field string, of func(*Criteria) *[]string, ask func([]string) condition) List {
	same := func(s string) string { return s }
	return list(name, field, of, func(s string) (string, error) { return s, nil }, same, ask)
}

// lists are all filters with lists of values. What is cheap to ask, and excludes much, comes first.
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

// Lists are all filters with lists of values.
func Lists() []List { return slices.Clone(lists) }

// Add adds values, read from texts, to a list. The error names the value.
func (l *List) Add(c *Criteria, values ...string) error {
	for _, v := range values {
		if err := l.add(c, v); err != nil {
			return err
		}
	}
	return nil
}

// Values are those of a list as Add reads them.
func (l *List) Values(c *Criteria) []string { return l.values(c) }

// clone returns criteria that share nothing with these.
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
