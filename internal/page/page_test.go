package page

import (
	"html"
	"html/template"
	"math"
	"strings"
	"testing"
)

func TestScalesHaveRoundEndsAndHoldTheirValues(t *testing.T) {
	for _, c := range []struct {
		values    []float64
		log       bool
		low, high float64
		ticks     []float64
	}{
		{[]float64{3, 9.2}, false, 0, 10, []float64{0, 2, 4, 6, 8, 10}},
		{[]float64{0.3, 1}, false, 0, 1, []float64{0, 0.2, 0.4, 0.6, 0.8, 1}},
		{[]float64{-3, 9}, false, -5, 10, []float64{-5, 0, 5, 10}},
		{[]float64{0, 0}, false, 0, 1, []float64{0, 0.2, 0.4, 0.6, 0.8, 1}},
		{[]float64{3, 700}, true, 2, 1000, []float64{2, 5, 10, 20, 50, 100, 200, 500, 1000}},
		{[]float64{0, 30, 4e7, math.NaN()}, true, 20, 5e7, []float64{100, 1000, 1e4, 1e5, 1e6, 1e7}},
		{[]float64{10, 10}, true, 10, 100, []float64{10, 20, 50, 100}},
		{[]float64{0}, true, 1, 10, []float64{1, 2, 5, 10}},
	} {
		s := NewScale(c.values, c.log)
		same := len(s.Ticks) == len(c.ticks)
		for i := range s.Ticks {
			same = same && math.Abs(s.Ticks[i]-c.ticks[i]) < 1e-9*c.high
		}
		if math.Abs(s.Low-c.low) > 1e-12 || s.High != c.high || !same {
			t.Errorf("of %v: %v to %v, ticks %v, want %v to %v, %v", c.values, s.Low, s.High, s.Ticks, c.low, c.high,
				c.ticks)
		}
	}
	s := NewScale([]float64{1, 100}, true)
	if s.From, s.To = 100, 300; s.At(10) != 200 || s.At(0) != 100 || s.At(1e9) != 300 {
		t.Errorf("10 is at %v, 0 at %v, much at %v", s.At(10), s.At(0), s.At(1e9))
	}
}

func TestTruncatedTextsFit(t *testing.T) {
	const size, width = 12, 100
	for _, s := range []string{"", "short", "log_statement=all, clients 16, and more", strings.Repeat("é", 100)} {
		got := Truncate(s, size, width)
		if TextWidth(got, size) > width || (got != s) != (TextWidth(s, size) > width) ||
			!strings.HasPrefix(s, strings.TrimSuffix(got, "…")) {
			t.Errorf("of %q: %q", s, got)
		}
	}
}

// A page allows its own style and script, and no others; a page without a script allows none.
func TestPolicyAllowsWhatThePageHas(t *testing.T) {
	const text = `{{define "title"}}{{.}}{{end}}{{define "body"}}<p>{{.}}</p>{{end}}`
	const evil = `</title><script>alert(1)</script>`
	for _, script := range []string{"", "let a = 1 < 2 && '</p>'"} {
		var b strings.Builder
		if err := New(text, "p { margin: 0 }", script, template.FuncMap{}).Write(&b, evil); err != nil {
			t.Fatal(err)
		}
		page := b.String()
		policy := "default-src 'none'; style-src '" + Hash(commonStyle+"p { margin: 0 }") + "'; "
		if script != "" {
			policy += "script-src '" + Hash(script) + "'; "
		}
		policy += "img-src data:; base-uri 'none'; form-action 'none'"
		if !strings.Contains(html.UnescapeString(page), `content="`+policy+`"`) ||
			!strings.Contains(page, "p { margin: 0 }</style>") {
			t.Errorf("with script %q: %s", script, page)
		}
		if got := strings.Count(page, "<script>"); got > 1 || (got == 1) != (script != "") ||
			script != "" && !strings.Contains(page, "<script>"+script+"</script>") {
			t.Errorf("with script %q: %d scripts in %s", script, got, page)
		}
	}
}

func TestDrawingsContainTextsNotMarkup(t *testing.T) {
	const evil, escaped = `"><b>&`, "&#34;&gt;&lt;b&gt;&amp;"
	got := Chart(evil, 10, 5, func(d *Drawing, width float64) float64 {
		d.Begin("m", evil)
		d.Text("end", 1, 2.345, evil)
		d.End()
		return width * 2.006
	})
	want := ""
	for _, image := range []string{`wide" viewBox="0 0 10 20.1"`, `slim" viewBox="0 0 5 10"`} {
		want += `<svg xmlns="http://www.w3.org/2000/svg" class="` + image + ` role="img" aria-label="` + escaped +
			`"><g class="m"><title>` + escaped + `</title><text class="end" x="1" y="2.3">` + escaped + `</text></g></svg>`
	}
	if string(got) != want {
		t.Errorf("got\n%s, want\n%s", got, want)
	}
}
