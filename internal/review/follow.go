// The commands that show the records behind an answer.

package review

import "github.com/pg-steno/pg_steno/internal/query"

// catCommand returns the command that shows the records of the period that match criteria.
func (s *Source) catCommand(c query.Criteria) string {
	return s.Command(&c, query.Range{Since: s.Since, Until: s.Until})
}
