package protocol

import (
	"strings"
	"testing"
	"time"
)

// measured is a session that executed a portal in a transaction block, with a pause, and then a query.
func measured(status byte) (*session, *statement, *statement) {
	s := &script{nested: map[string]string{}}
	g := &generator{script: s}
	portal := g.statement("SELECT @ id FROM a0")
	query := g.statement("SELECT @ 1")
	s.steps = []*step{
		{messages: []message{{op: 'B', statement: portal}}, took: 5 * time.Millisecond, status: 'T'},
		{delay: time.Second},
		{query: []*statement{query}, took: 7 * time.Millisecond, status: status},
		{query: []*statement{g.statement("SELECT @ 2")}, took: 11 * time.Millisecond, status: 'I'},
	}
	return &session{script: s}, portal, query
}

func TestLimitsContainNoPauses(t *testing.T) {
	for status, want := range map[byte]time.Duration{'I': 12 * time.Millisecond, 'T': 23 * time.Millisecond} {
		c, portal, query := measured(status)
		limits := c.limits()
		if limits[portal] != want || limits[query] != 7*time.Millisecond {
			t.Errorf("%c: the portal's limit is %s, the query's %s", status, limits[portal], limits[query])
		}
	}
	c, portal, _ := measured('T')
	c.script.steps[3].took = 0
	if limit, known := c.limits()[portal]; known {
		t.Errorf("an answer is missing, but the portal's limit is %s", limit)
	}
}

func TestDurationsAreChecked(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*session, []*record)
		want   string
	}{
		"as long as the client waited":      {func(c *session, r []*record) { r[1].Duration = 10000 }, ""},
		"longer than the client waited":     {func(c *session, r []*record) { r[1].Duration = 30000 }, "duration: session 0.0: m0.0.1"},
		"longer with its commit":            {func(c *session, r []*record) { r[1].Duration, r[1].Commit = 10000, 20000 }, "duration: session 0.0: m0.0.1"},
		"as long as it slept":               {func(c *session, r []*record) { c.script.steps[0].query[0].sleeps, r[1].Duration = 3e6, 9000 }, ""},
		"shorter than it slept":             {func(c *session, r []*record) { c.script.steps[0].query[0].sleeps, r[1].Duration = 3e6, 1000 }, "duration: session 0.0: m0.0.1"},
		"a statement while it is idle":      {func(c *session, r []*record) { c.whileIdle = []string{"SELECT 1"} }, "idle: session 0.0"},
		"rows that were fetched":            {func(c *session, r []*record) { c.script.steps[1].query[0].cursor.fetched, r[3].Rows = 3, r[1].Rows }, ""},
		"rows that nobody fetched":          {func(c *session, r []*record) { r[3].Rows = r[1].Rows }, "rows: session 0.0: m0.0.2"},
		"rows of a portal, also by FETCH":   {func(c *session, r []*record) { c.script.steps[0].query[0].cursor, *r[1].Rows = &cursor{fetched: 4}, 7 }, ""},
		"rows of a portal, without FETCH's": {func(c *session, r []*record) { c.script.steps[0].query[0].cursor = &cursor{fetched: 4} }, "rows: session 0.0: m0.0.1"},
	} {
		c, trail := clientOf(), trailOf()
		for _, st := range c.script.steps {
			st.took, st.status = 12*time.Millisecond, 'I'
		}
		c.script.steps[1].query[0].tag, c.script.steps[1].query[0].cursor = "DECLARE CURSOR", &cursor{}
		test.change(c, trail)
		if got := complaintsAbout(c, trail); test.want == "" && got != "" || !strings.Contains(got, test.want) {
			t.Errorf("%s: got %q", name, got)
		}
	}
}
