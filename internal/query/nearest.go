// The name that was probably meant.

package query

import (
	"strings"

	"github.com/pg-steno/pg_steno/internal/render"
)

// Nearest is the name that is most like another one; empty if there are none.
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
