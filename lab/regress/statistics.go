// Compares records with what pg_stat_statements has counted: calls, rows and durations of each query.

package regress

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"
)

// StatisticsQuery returns the statistics as lines of JSON. Statistics of a query that is both a client's and nested
// are added up. pg_stat_statements.track must be all.
const StatisticsQuery = `
	SELECT row_to_json(x) FROM (
		SELECT rolname AS user, datname AS database, queryid AS query_id, min(query) AS query, sum(calls)::bigint AS calls,
			coalesce(sum(calls) FILTER (WHERE NOT toplevel), 0)::bigint AS nested, sum(rows)::bigint AS rows,
			sum(plans)::bigint AS plans, sum(total_exec_time) AS execution_ms, sum(total_plan_time) AS plan_ms
		FROM pg_stat_statements s LEFT JOIN pg_database d ON d.oid = s.dbid LEFT JOIN pg_roles r ON r.oid = s.userid
		WHERE queryid <> 0 GROUP BY 1, 2, 3) x`

// Statistic has the statistics of a query.
type Statistic struct {
	User        string  `json:"user"`
	Database    string  `json:"database"`
	QueryID     int64   `json:"query_id"`
	Query       string  `json:"query"`
	Calls       int64   `json:"calls"`
	Nested      int64   `json:"nested"` // of these
	Rows        int64   `json:"rows"`
	Plans       int64   `json:"plans"`
	ExecutionMS float64 `json:"execution_ms"`
	PlanMS      float64 `json:"plan_ms"`
}

// ReadStatistics reads the lines that StatisticsQuery returns.
func ReadStatistics(from io.Reader) ([]Statistic, error) {
	var all []Statistic
	for lines := json.NewDecoder(from); ; {
		var s Statistic
		if err := lines.Decode(&s); err == io.EOF {
			return all, nil
		} else if err != nil {
			return nil, fmt.Errorf("pg_stat_statements: %w", err)
		}
		all = append(all, s)
	}
}

type queryKey struct {
	user, database string
	id             int64
}

// counted has the sums of the records of a query.
type counted struct {
	text, command      string
	calls, rows        int64
	failed             int64
	duration, analysis time.Duration
	nested             bool
	records            []*record
}

// queries are the records of each query, by the user who began the session.
type queries map[string]map[queryKey]*counted

// unseen are commands that pg_stat_statements leaves to the queries that they run, and unseenBefore17 those that it
// has since PostgreSQL 17.
var (
	unseen         = []string{"EXECUTE", "PREPARE"}
	unseenBefore17 = []string{"DEALLOCATE", "DEALLOCATE ALL"}
)

var (
	// control matches transaction control, whose records have no query ID.
	control = regexp.MustCompile(`(?i)^\s*(BEGIN|START TRANSACTION|COMMIT|END` +
		`|ROLLBACK|ABORT|SAVEPOINT|RELEASE|PREPARE TRANSACTION)\b`)
	// roles matches statements that change the current role: the statistics count them for the new one.
	roles = regexp.MustCompile(`(?i)^\s*(RE)?SET\s+((SESSION|LOCAL)\s+)?(ROLE|SESSION\s+AUTHORIZATION)\b`)
)

// withQuery are commands that may contain a query, which has no record of its own.
var withQuery = []string{"COPY", "EXPLAIN", "CREATE TABLE AS", "SELECT INTO", "CREATE MATERIALIZED VIEW",
	"REFRESH MATERIALIZED VIEW", "DECLARE CURSOR"}

func (q queries) add(x *record) {
	if slices.Contains(unseen, x.Command) || roles.MatchString(x.text()) {
		return
	}
	k := queryKey{x.User, x.Database, x.QueryID}
	if x.Role != "" {
		k.user = x.Role
	}
	if q[x.User] == nil {
		q[x.User] = map[queryKey]*counted{}
	}
	c := q[x.User][k]
	if c == nil {
		c = &counted{text: x.text(), command: x.Command}
		q[x.User][k] = c
	}
	if x.Outcome != "ok" {
		c.failed++
		return
	}
	c.calls++
	c.rows += x.Rows
	c.duration += time.Duration(x.Duration) * time.Microsecond
	c.analysis += time.Duration(x.Analysis) * time.Microsecond
	c.nested = c.nested || x.Depth > 0
	c.records = append(c.records, x)
}

// byQuery returns the records of each query.
func (q queries) byQuery() map[queryKey]*counted {
	sum := map[queryKey]*counted{}
	for _, one := range q {
		for k, c := range one {
			if sum[k] == nil {
				sum[k] = &counted{text: c.text, command: c.command}
			}
			s := sum[k]
			s.calls += c.calls
			s.rows += c.rows
			s.failed += c.failed
			s.duration += c.duration
			s.analysis += c.analysis
			s.nested = s.nested || c.nested
			s.records = append(s.records, c.records...)
		}
	}
	return sum
}

// CompareStatistics compares the records of each query with its statistics. Rows of a query that was executed in parts
// are those of its last part before PostgreSQL 17; so are those of a function's loop.
func (r *Report) CompareStatistics(all []Statistic, version int) {
	inParts := map[int64]bool{}
	if version < 170000 {
		for _, s := range r.sessions {
			for _, x := range s.sent {
				if x.pieces > 1 {
					inParts[x.queryID] = true
				}
			}
		}
	}
	recorded := r.recorded.byQuery()
	if version < 170000 {
		maps.DeleteFunc(recorded, func(_ queryKey, c *counted) bool {
			return slices.Contains(unseenBefore17, c.command)
		})
	}
	seen := map[queryKey]bool{}
	for _, s := range all {
		if s.Calls == 0 {
			continue // it was planned, and failed
		}
		k := queryKey{s.User, s.Database, s.QueryID}
		c := recorded[k]
		if c == nil && (control.MatchString(s.Query) || roles.MatchString(s.Query)) {
			r.ByDesign["transaction control and changes of the role, in the statistics"] += int(s.Calls)
			continue
		}
		if c == nil {
			c = &counted{}
		}
		seen[k] = true
		switch more := s.Calls - c.calls; {
		case more == 0:
		case more < 0 && r.Aborts:
			r.ByDesign["end of a query that its transaction's failure kept from the statistics"] += int(-more)
			continue
		case more > 0 && more <= c.failed:
			r.ByDesign["failure of a commit, after the statement"] += int(more)
			continue
		case more > 0 && more <= s.Nested && int(more) <= r.within:
			r.within -= int(more)
			r.ByDesign["query of a utility statement, which is part of its record"] += int(more)
			continue
		default:
			r.differ("different", "%s in %s, %d calls in pg_stat_statements, but %d records: %.300q", s.User,
				s.Database, s.Calls, c.calls, s.Query)
			continue
		}
		if strings.HasPrefix(strings.ToUpper(s.Query), "MOVE") {
			continue // its rows are those of its command tag, which the statistics do not have
		}
		if r.Aborts {
			continue // and cursors that MOVE has passed over, whose rows the statistics count
		}
		if c.rows != s.Rows {
			if c.rows > s.Rows && (inParts[s.QueryID] || c.nested && version < 170000) {
				r.ByDesign["rows of a query that was executed in parts (pg_stat_statements has those of the last "+
					"one)"]++
			} else {
				r.differ("different", "%s in %s, %d rows in pg_stat_statements, but %d recorded: %.300q", s.User,
					s.Database, s.Rows, c.rows, s.Query)
			}
		}
	}
	for k, c := range recorded {
		if !seen[k] && c.calls > 0 && !r.Aborts {
			r.differ("extra", "%s in %s, %d records of a query that pg_stat_statements does not have: %.300q", k.user,
				k.database, c.calls, c.text)
		}
	}
}

// analyzing is how much longer than its planning and execution a statement may take, on average: by its parse
// analysis, and by the start and the end of its executor, which the statistics do not have.
const analyzing = 500 * time.Microsecond

// What the statistics leave out, or a record does, by definition (docs/records.md).
const (
	analyzesAndStarts = "long parse analysis, or start of the executor, which the log has, too"
	plansOutside      = "planning of a query of EXECUTE, which is in the record of that"
)

// confirmed reports whether the log has all the records of a query, with the same durations, except for the share of
// them that may be beyond the limits.
func (c *counted) confirmed(limits Limits) bool {
	n := 0
	for _, x := range c.records {
		if x.confirmed {
			n++
		}
	}
	return !c.nested && float64(n) >= limits.Share*float64(len(c.records))
}

// differs returns why the mean duration of a query's records differs from that in its statistics by definition; "": it
// does not, or there is no reason.
func (c *counted) differs(ours time.Duration, s Statistic, limits Limits) string {
	execution := time.Duration(s.ExecutionMS * float64(time.Millisecond) / float64(s.Calls))
	switch {
	case ours > execution && c.confirmed(limits):
		return analyzesAndStarts
	case c.nested && strings.HasPrefix(s.Query, "PREPARE ") && limits.within(ours, execution):
		return plansOutside
	default:
		return ""
	}
}

// JudgeStatistics writes for how many calls the mean durations agree with the times of planning and execution in
// pg_stat_statements, and lists the other queries. It reports whether there are enough of them. Those that differ by
// definition are counted separately. It comes after JudgeDurations.
func (r *Report) JudgeStatistics(all []Statistic, limits Limits, out io.Writer) bool {
	total, beyond := 0, 0
	recorded := r.recorded.byQuery()
	different := map[string]int{}
	for _, s := range all {
		c := recorded[queryKey{s.User, s.Database, s.QueryID}]
		if c == nil || c.calls != s.Calls || s.Calls == 0 {
			continue
		}
		theirs := time.Duration((s.ExecutionMS + s.PlanMS) * float64(time.Millisecond) / float64(s.Calls))
		ours := (c.duration - c.analysis) / time.Duration(c.calls)
		if !limits.within(ours, theirs) &&
			!(ours > theirs && (ours <= theirs+analyzing || limits.within(ours, theirs+analyzing))) {
			if why := c.differs(ours, s, limits); why != "" {
				different[why] += int(s.Calls)
				continue
			}
			beyond += int(s.Calls)
			if r.list != nil {
				fmt.Fprintf(r.list, "duration: %d calls, mean in pg_stat_statements %s, in the trail %s: %.200q\n",
					s.Calls, theirs, ours, s.Query)
			}
		}
		total += int(s.Calls)
	}
	writeDifferent(out, "statistics", different)
	return total == 0 || limits.verdict(out, "statistics", total, beyond)
}

// ExcludeUser leaves the sessions of a user out of the comparison with the statistics.
func (r *Report) ExcludeUser(user string) { delete(r.recorded, user) }
