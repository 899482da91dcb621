//go:build unix

package report

import (
	"bytes"
	"encoding/json"
	"fmt"
	"html"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/pg-steno/pg_steno/internal/browsertest"
	"github.com/pg-steno/pg_steno/internal/trail/trailtest"
)

// frame has the page in a frame, looks into it and says what it has seen. The page itself stays as
// it is, with its policy.
const frame = `<!doctype html><meta name="color-scheme" content="light dark"><link rel="icon" href="data:,">
<iframe id="page" src="/page" width="%d" height="900" style="border: 0"></iframe><script>
document.getElementById("page").addEventListener("load", function () {
  var view = this.contentWindow, page = this.contentDocument, seen = {};
  function all(selector) { return [].slice.call(page.querySelectorAll(selector)); }
  function shown(selector) { return all(selector).filter(function (e) { return e.getBoundingClientRect().width > 0; }); }
  seen.width = view.innerWidth;
  seen.closed = page.documentElement.scrollWidth;
  seen.charts = shown("figure svg.wide").length + "," + shown("figure svg.slim").length;
  var handle = page.querySelector("tr.r summary"), at = (handle.scrollIntoView(), handle.getBoundingClientRect());
  seen.handle = page.elementFromPoint(at.left + at.width / 2, at.top + at.height / 2) === handle;
  seen.cut = all("th.n, td.n").filter(function (e) {
    var box = e.getBoundingClientRect(), frame = e.closest(".scroll");
    return box.width > 0 && box.right > frame.getBoundingClientRect().right + 1;
  }).map(function (e) { return e.closest("table").id; }).filter(function (id, i, ids) { return ids.indexOf(id) === i; });
  all("details").forEach(function (d) { d.open = true; });
  seen.open = page.documentElement.scrollWidth;
  seen.scripts = all("script, img, iframe, [onerror], [onmouseover]").length;
  seen.fetched = view.performance.getEntriesByType("resource").map(function (e) { return e.name; });
  seen.styled = view.getComputedStyle(page.body).maxWidth;
  seen.paper = view.getComputedStyle(page.documentElement).backgroundColor;
  seen.ink = view.getComputedStyle(page.querySelector("svg text")).fill;
  seen.unnamed = all("section").filter(function (s) { return !page.getElementById(s.getAttribute("aria-labelledby")); }).length +
    all("table").filter(function (t) { return !t.caption || !t.caption.textContent; }).length +
    all("svg").filter(function (s) { return !s.getAttribute("aria-label"); }).length;
  seen.dead = all("a").filter(function (a) { return !page.getElementById(decodeURIComponent(a.hash.slice(1))); }).map(function (a) { return a.outerHTML; });
  seen.outside = all("figure svg text").filter(function (e) {
    var box = e.getBoundingClientRect(), picture = e.closest("svg").getBoundingClientRect();
    return picture.width > 0 && (box.left < picture.left - 1 || box.right > picture.right + 1);
  }).map(function (e) { return e.textContent; });
  seen.text = page.body.textContent;
  var out = document.createElement("pre");
  out.textContent = JSON.stringify(seen);
  document.body.appendChild(out);
});
</script>`

type seen struct {
	Width, Closed, Open, Scripts, Unnamed int
	Charts, Styled, Paper, Ink, Text      string
	Fetched, Dead, Outside, Cut           []string
	Handle                                bool
}

// look shows a page in a browser, and returns what was seen, what was asked for, and what the
// browser's console has.
func look(t *testing.T, page string, width int, dark bool) (s seen, asked, console []string) {
	t.Helper()
	dom, log, asked := browsertest.Open(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/page" {
			_, _ = io.WriteString(w, page)
			return
		}
		fmt.Fprintf(w, frame, width)
	}), "1400,1000", dark)
	m := regexp.MustCompile(`(?s)<pre>(.*?)</pre>`).FindStringSubmatch(dom)
	if m == nil {
		t.Fatalf("nothing was seen\n%s\n%s", dom, log)
	}
	if err := json.Unmarshal([]byte(html.UnescapeString(m[1])), &s); err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(log) {
		if strings.Contains(line, "CONSOLE") {
			console = append(console, line)
		}
	}
	return s, asked, console
}

func TestPageInABrowser(t *testing.T) {
	var b bytes.Buffer
	if err := office(t, func(o *Options) { sinceFriday(o); o.Standard = "pci" }).WriteHTML(&b); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		width  int
		dark   bool
		charts string
	}{{390, false, "0,5"}, {1280, true, "5,0"}} {
		s, asked, console := look(t, b.String(), c.width, c.dark)
		if len(console) > 0 || len(s.Fetched) > 0 || !slices.Equal(asked, []string{"/", "/page"}) {
			t.Errorf("in %d: console %q, fetched %q, asked for %q", c.width, console, s.Fetched, asked)
		}
		if s.Width != c.width || s.Closed > c.width || s.Open > c.width {
			t.Errorf("%d wide, %d when all is open, in %d, which should be %d", s.Closed, s.Open, s.Width, c.width)
		}
		paper, ink := "rgb(255, 255, 255)", "rgb(28, 33, 39) rgb(91, 101, 112)"
		if c.dark {
			paper, ink = "rgb(21, 24, 28)", "rgb(227, 231, 235) rgb(154, 165, 176)"
		}
		if s.Charts != c.charts || s.Styled == "none" || s.Paper != paper || s.Ink == "" || !strings.Contains(ink, s.Ink) {
			t.Errorf("in %d: charts %s, style %s, %s on %s", c.width, s.Charts, s.Styled, s.Ink, s.Paper)
		}
		if s.Scripts > 0 || s.Unnamed > 0 || len(s.Dead) > 0 || len(s.Outside) > 0 {
			t.Errorf("in %d: %d scripts, %d without a name, dead links %q, texts outside of pictures %q", c.width, s.Scripts, s.Unnamed, s.Dead, s.Outside)
		}
		if !s.Handle {
			t.Errorf("in %d: the triangle that opens a row is hidden", c.width)
		}
		// on a screen, figures are seen without scrolling, however long the names before them are
		if c.width > 1000 && len(s.Cut) > 0 {
			t.Errorf("in %d: numbers of %q are hidden", c.width, s.Cut)
		}
		for _, text := range []string{trailtest.OfficeEvilTable, `'<script src="https://example.org/x.js"></script><img src=x onerror=alert(5)>' \x1b[31m`, `near "<script>alert(3)</script>"`, "o'neill, <script>"} {
			if !strings.Contains(s.Text, text) {
				t.Errorf("in %d: the page does not show %q", c.width, text)
			}
		}
	}
}
