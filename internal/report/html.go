// The page, which contains no scripts.

package report

import (
	_ "embed"
	"html/template"
	"io"

	"github.com/dustin/go-humanize"

	"github.com/pg-steno/pg_steno/internal/page"
	"github.com/pg-steno/pg_steno/internal/render"
)

//go:embed page.css
var css string

//go:embed page.html
var pageText string

var pageOfReport = page.New(pageText, css, "", template.FuncMap{
	"number": humanize.Comma,
	"span":   func(t Table) int { return len(t.Columns) + 1 },
	"wide":   func(t Table) bool { return len(t.Columns) > 4 },
	"list": func(name string, list []string) any {
		return struct {
			Name string
			List []string
		}{name, list}
	},
	"cell": cellClass,
	"front": func(all []Figure) (out []Figure) {
		for _, f := range all {
			if f.Front {
				out = append(out, f)
			}
		}
		return out
	},
})

// WriteHTML writes the report as a page that stands alone.
func (r *Report) WriteHTML(w io.Writer) error { return pageOfReport.Write(w, r) }

// cellClass returns the style classes of a cell.
func cellClass(c Cell, column Column) string {
	class := ""
	add := func(is bool, name string) {
		if is && class != "" {
			class += " "
		}
		if is {
			class += name
		}
	}
	add(column.Number, "n")
	add(c.Alarm, "alarm")
	add(c.Code, "sql")
	add(column.List, "list")
	add(column.Long, "long")
	add(c.Heat > 0, "h"+string(rune('0'+c.Heat)))
	return class
}

// Who returns the user, the role if it differs, and the database of a record.
func (s *Sample) Who() string {
	if s.User == "" && s.Database == "" {
		return ""
	}
	who := s.User
	if s.Role != "" {
		who += " as " + s.Role
	}
	return render.Safe(who + "@" + s.Database)
}
