// Suggestions for mistyped names.

package query

import (
	"strings"

	"github.com/pg-steno/pg_steno/internal/render"
)

// Nearest returns the name that is most similar to another one; empty: none is.
func Nearest(name string, names []string) (nearest string) {
	least := 0
	for _, other := range names {
		if d := render.Distance(strings.ToLower(name), strings.ToLower(other)); nearest == "" || d < least ||
			d == least && other < nearest {
			nearest, least = other, d
		}
	}
	return nearest
}
