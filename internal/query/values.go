// Values of filters as people write them. Each parse function refuses invalid values with an error that quotes
// them.

package query

import (
	"fmt"
	"math"
	"math/bits"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pg-steno/pg_steno/internal/format"
	"github.com/pg-steno/pg_steno/internal/render"
)

// ParseKind reads the name of a kind of records, ignoring case.
func ParseKind(s string) (format.Kind, error) {
	kinds, _, _ := format.Names()
	name, err := oneOf(s, kinds)
	for k := range format.Kind(math.MaxUint8) {
		if err == nil && k.String() == name {
			return k, nil
		}
	}
	return 0, err
}

// ParseClass reads the name of a class of statements, ignoring case.
func ParseClass(s string) (format.Class, error) {
	_, classes, _ := format.Names()
	name, err := oneOf(s, classes)
	for c := range format.Class(math.MaxUint8) {
		if err == nil && c.String() == name {
			return c, nil
		}
	}
	return 0, err
}

// ParseReason reads a reason for which records are written.
func ParseReason(s string) (format.Audited, error) {
	name, err := oneOf(s, format.Reasons())
	if err != nil {
		return 0, err
	}
	return 1 << slices.Index(format.Reasons(), name), nil
}

func nameOfReason(a format.Audited) string { return format.Reasons()[bits.TrailingZeros8(uint8(a))] }

// oneOf finds a name in a list, ignoring case.
func oneOf(name string, list []string) (string, error) {
	lower := strings.ToLower(name)
	if !slices.Contains(list, lower) {
		return "", fmt.Errorf("%q is not one of %s", name, strings.Join(list, ", "))
	}
	return lower, nil
}

// ParseSession reads the ID of a session as records show it.
func ParseSession(s string) (id format.SessionID, err error) {
	start, pid, _ := strings.Cut(s, ".")
	seconds, _ := strconv.ParseInt(start, 16, 64)
	n, _ := strconv.ParseUint(pid, 16, 32)
	id = format.SessionID{Start: Micros(time.Unix(seconds, 0)), PID: uint32(n)}
	if !format.IsSessionID(s) || id.String() != s {
		return format.SessionID{}, fmt.Errorf("%q is not a session ID, such as 6b0202d9.fa1", s)
	}
	return id, nil
}

// ParseXID reads a transaction ID.
func ParseXID(s string) (uint64, error) {
	n, err := strconv.ParseUint(s, 10, 64)
	if err != nil || n == 0 {
		return 0, fmt.Errorf("%q is not a transaction ID", s)
	}
	return n, nil
}

// SQLState is an SQLSTATE, or its first two characters, a class.
type SQLState string

func (s SQLState) String() string { return string(s) }

var sqlstateFormat = regexp.MustCompile(`^[0-9A-Z]{2}([0-9A-Z]{3})?$`)

// ParseSQLState reads an SQLSTATE or a class, ignoring case.
func ParseSQLState(s string) (SQLState, error) {
	upper := strings.ToUpper(s)
	if !sqlstateFormat.MatchString(upper) {
		return "", fmt.Errorf("%q is neither an SQLSTATE, such as 42501, nor the class of some, such as 42", s)
	}
	return SQLState(upper), nil
}

// IgnoreCase makes the patterns of both lists ignore case.
func (c *Criteria) IgnoreCase() error {
	for _, list := range []*Criteria{c, c.Not} {
		if list == nil {
			continue
		}
		folded := make([]*regexp.Regexp, len(list.Grep))
		for i, re := range list.Grep {
			var err error
			if folded[i], err = regexp.Compile("(?i)" + re.String()); err != nil {
				return err
			}
		}
		list.Grep = folded
	}
	return nil
}

// Range is a range of times: from Since, to before Until.
type Range struct{ Since, Until int64 }

// Always is the range of all times.
var Always = Range{format.MinTime, format.MaxTime}

// NewRange refuses empty ranges.
func NewRange(since, until int64) (Range, error) {
	if until <= since {
		return Range{}, fmt.Errorf("%s is not later than %s", render.Time(until), render.Time(since))
	}
	return Range{since, until}, nil
}

// IsBounded returns whether a range has both a beginning and an end.
func (r Range) IsBounded() bool { return r.Since != format.MinTime && r.Until != format.MaxTime }
