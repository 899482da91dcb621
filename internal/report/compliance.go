// A report in the order of the requirements of a standard, as docs/compliance.md lists them.

package report

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/pg-steno/pg_steno/docs"
)

// Standards are the names of the standards for which docs/compliance.md has a table.
var Standards = []string{"stig", "cis", "pci", "hipaa", "soc2"}

// Standard is a standard, and what the period shows for each of its requirements.
type Standard struct {
	Name  string        `json:"name"`
	Title string        `json:"title"`
	About string        `json:"about"`
	Rows  []Requirement `json:"requirements"`
}

// Requirement is a row of docs/compliance.md.
type Requirement struct {
	ID      string  `json:"id"`
	AsksFor string  `json:"asks_for"`
	Covered string  `json:"covered"`
	Left    string  `json:"left_to_you,omitempty"`
	Shows   []Shown `json:"shows,omitempty"` // empty: a trail cannot show it
}

// Shown is what the period shows for a requirement.
type Shown struct {
	Text    string    `json:"text"`
	Section string    `json:"section,omitempty"`
	Records []Records `json:"-"` // not in JSON, where the key figure has them
}

// shownBy says which parts of the report show a requirement: key figures by their IDs, sections by an @ and
// their IDs, and the words verdict, seals and anchors. A trail cannot show requirements that are not listed
// here, because they are about the server's configuration, its files, or people.
var shownBy = map[string]string{
	// DISA STIG
	"V-233512 CD12-00-000200": "statements failed", "V-233514 CD12-00-000400": "verdict seals",
	"V-233531 CD12-00-002300": "verdict anchors",
	"V-233534 CD12-00-002600": "settings", "V-233536 CD12-00-002800": "verdict", "V-233542 CD12-00-003500": "notes",
	"V-233547 CD12-00-004100": "denied_set denied_ddl",
	"V-233551 CD12-00-004400": "reads @access", "V-233552 CD12-00-004500": "denied",
	"V-233553 CD12-00-004600": "refused", "V-233554 CD12-00-004700": "logins logouts",
	"V-233555 CD12-00-004800": "denied_ddl denied_role", "V-233556 CD12-00-004900": "granted",
	"V-233557 CD12-00-005000": "denied_write", "V-233558 CD12-00-005100": "logins",
	"V-233559 CD12-00-005200": "dropped", "V-233560 CD12-00-005300": "denied_read",
	"V-233561 CD12-00-005400": "denied_role", "V-233562 CD12-00-005500": "catalog",
	"V-233563 CD12-00-005600": "denied_write", "V-233564 CD12-00-005700": "denied",
	"V-233565 CD12-00-005800": "role ddl @privileged", "V-233566 CD12-00-005900": "denied_read denied_write",
	"V-233567 CD12-00-006000": "catalog @access", "V-233568 CD12-00-006100": "revoked",
	"V-233569 CD12-00-006200": "@logins", "V-233570 CD12-00-006300": "denied_ddl denied_role",
	"V-233571 CD12-00-006400": "grants accounts", "V-233572 CD12-00-006500": "denied_role denied_ddl",
	"V-233573 CD12-00-006600": "altered", "V-233574 CD12-00-006700": "writes @access",
	"V-233575 CD12-00-006800": "denied_role", "V-233576 CD12-00-006900": "denied_role",
	"V-233578 CD12-00-007100": "@access", "V-233580 CD12-00-007400": "@activity",
	"V-233582 CD12-00-007800": "@activity @logins", "V-233589 CD12-00-008600": "servers",
	"V-233591 CD12-00-008800": "@logins", "V-233598 CD12-00-009700": "verdict seals anchors",
	"V-233600 CD12-00-010000": "settings", "V-233604 CD12-00-010400": "@activity",
	"V-233608 CD12-00-011100": "@activity", "V-233618 CD12-00-012200": "settings denied_set",
	"V-233620 CD12-00-012500": "writes dropped", "V-233621 CD12-00-012600": "reads writes @access",
	"V-233622 CD12-00-012700": "logins @activity",
	// CIS
	"3.1.15": "failed", "3.1.20": "logins refused", "3.1.21": "logouts", "3.1.22": "@failures", "3.1.23": "@logins",
	"3.1.24": "@activity", "3.1.25": "statements", "3.2": "servers",
	// PCI DSS
	"10.2.1": "@activity", "10.2.1.1": "reads writes @access", "10.2.1.2": "role ddl @privileged",
	"10.2.1.4": "refused denied", "10.2.1.5": "accounts grants",
	"10.2.1.6": "servers settings gaps", "10.2.1.7": "created dropped", "10.2.2": "@activity @logins",
	"10.3.2": "verdict seals", "10.3.4": "verdict seals anchors",
	"10.4.1":   "refused denied @privileged @off_hours @new_access",
	"10.4.1.1": "refused denied @off_hours @new_access", "10.5.1": "verdict",
	"10.7.1, 10.7.2, 10.7.3": "servers gaps",
	// HIPAA
	"164.312(b), record":  "statements reads writes @access",
	"164.312(b), examine": "@access @failures @off_hours @new_access",
	// SOC 2
	"CC7.1": "role ddl settings alter_system", "CC7.2": "refused denied @off_hours @new_access gaps",
	"CC7.3": "verdict failed",
}

var (
	tableFormat = regexp.MustCompile(`(?s)\n## ([^\n]+)\n((?:[^#]|[^\n]#)*?)` +
		`<!-- requirements: (\w+) -->\n(.*?)<!-- end -->`)
	linkFormat = regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`)
)

// plainText removes the marks of Markdown.
func plainText(s string) string {
	oneLine := strings.Join(strings.Fields(s), " ")
	return strings.NewReplacer("`", "", "*", "").Replace(linkFormat.ReplaceAllString(oneLine, "$1"))
}

// requirements reads the table of a standard in docs/compliance.md.
func requirements(name string) (s *Standard, err error) {
	for _, t := range tableFormat.FindAllStringSubmatch(docs.Compliance, -1) {
		if t[3] != name {
			continue
		}
		s = &Standard{Name: name, Title: t[1]}
		for _, line := range strings.Split(strings.TrimSpace(t[4]), "\n")[2:] {
			cells := strings.Split(strings.Trim(line, "| "), " | ")
			if len(cells) != 6 {
				return nil, fmt.Errorf("docs/compliance.md: not a row of six cells: %s", line)
			}
			r := Requirement{ID: cells[0], AsksFor: plainText(cells[1]), Covered: cells[2], Left: plainText(cells[5])}
			if r.Left == "–" {
				r.Left = ""
			}
			s.Rows = append(s.Rows, r)
		}
		return s, nil
	}
	return nil, fmt.Errorf("docs/compliance.md has no table %s", name)
}

// standardReport says what the period shows for each requirement of the chosen standard.
func (m *maker) standardReport(r *Report) (*Standard, error) {
	s, err := requirements(m.options.Standard)
	if err != nil {
		return nil, err
	}
	s.About = "Requirements in the order of docs/compliance.md of pg_steno, which says which settings each of " +
		"them needs: “covered” is what pg_steno can do, " +
		"not what this server does. Your assessor decides whether a requirement is met."
	for i := range s.Rows {
		for id := range strings.FieldsSeq(shownBy[s.Rows[i].ID]) {
			shown, ok := r.shownFor(id)
			if !ok {
				return nil, fmt.Errorf("requirement %s: nothing is called %s", s.Rows[i].ID, id)
			}
			s.Rows[i].Shows = append(s.Rows[i].Shows, shown)
		}
		if len(s.Rows[i].Shows) > 0 && !r.Everything() {
			s.Rows[i].Shows = append(s.Rows[i].Shows, Shown{
				Text: "Not everything of the period was recorded, or that is not known: see “Was everything " +
					"recorded?”",

				Section: "recorded",
			})
		}
	}
	return s, nil
}

// shownFor returns the part of the report that has a name of shownBy; false: there is none.
func (r *Report) shownFor(id string) (Shown, bool) {
	if section, ok := strings.CutPrefix(id, "@"); ok {
		i := slices.IndexFunc(r.Sections, func(s Section) bool { return s.ID == section })
		if i < 0 {
			return Shown{}, false
		}
		return Shown{Text: r.Sections[i].Title + ": " + r.Sections[i].Summary, Section: section}, true
	}
	fact := map[string]string{"seals": "Seals", "anchors": "Anchors"}[id]
	switch {
	case id == "verdict":
		return Shown{Text: "Verified: " + r.Verdict.Text + ".", Section: "verdict"}, true
	case fact != "":
		text := ""
		for _, f := range r.Verdict.Facts {
			if f.Name == fact {
				text += "; " + f.Text
			}
		}
		if text == "" {
			text = "; none"
		}
		return Shown{Text: fact + ": " + text[2:], Section: "verdict"}, true
	}
	i := slices.IndexFunc(r.Figures, func(f Figure) bool { return f.ID == id })
	if i < 0 {
		return Shown{}, false
	}
	f := r.Figures[i]
	return Shown{Text: f.Name + ": " + f.Records.number(), Section: f.Section, Records: []Records{f.Records}}, true
}
