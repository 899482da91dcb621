package report

import (
	"encoding/json"
	"fmt"
	"html"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/pg-steno/pg_steno/internal/browsertest"
	"github.com/pg-steno/pg_steno/internal/page"
)

// probe is added to a copy of the page. It precedes the page's own script, records errors from then on, uses the page
// like a reader, and stores its observations in an attribute.
const probe = `
var seen = {page: Number(location.pathname.slice(1)), errors: []};
addEventListener("error", function (e) { seen.errors.push(String(e.message || e.target.outerHTML)); }, true);
addEventListener("securitypolicyviolation", function (e) {
  seen.errors.push("policy: " + e.violatedDirective + " " + e.blockedURI);
});
console.error = console.warn = function () { seen.errors.push([].join.call(arguments, " ")); };
function leave() {
  var out = parent.document.createElement("pre");
  out.textContent = JSON.stringify(seen);
  parent.document.body.appendChild(out);
}
addEventListener("load", function () {
  try { use(); } catch (e) { seen.errors.push(String(e)); }
  leave();
});
function use() {
  seen.width = innerWidth;
  seen.scroll = document.documentElement.scrollWidth;
  seen.dark = matchMedia("(prefers-color-scheme: dark)").matches;
  seen.paper = getComputedStyle(document.documentElement).backgroundColor;
  seen.ink = getComputedStyle(document.querySelector("svg text")).fill;
  seen.fetched = performance.getEntriesByType("resource").map(function (e) { return e.name; });
  function shown(selector) {
    return [].filter.call(document.querySelectorAll(selector), function (e) { return e.getBoundingClientRect().width > 0; });
  }
  seen.wide = shown("figure svg.wide").length;
  seen.slim = shown("figure svg.slim").length;
  seen.outside = [].filter.call(document.querySelectorAll("figure > svg text"), function (e) {
    var box = e.getBoundingClientRect(), picture = e.closest("svg").getBoundingClientRect();
    return picture.width > 0 && (box.left < picture.left - 1 || box.right > picture.right + 1);
  }).map(function (e) { return e.textContent; });
  shown("svg .m")[0].dispatchEvent(new PointerEvent("pointermove", {bubbles: true, clientX: 300, clientY: 300}));
  var tip = document.getElementById("tip");
  seen.tip = tip.hidden ? "" : tip.textContent;
  var table = document.querySelector("section[aria-labelledby=tables] table");
  var column = table.tBodies[0].rows[0].cells.length - 1;
  seen.columns = [0, 1].map(function () {
    table.tHead.rows[0].cells[column].querySelector("button").click();
    return [].map.call(table.tBodies[0].rows, function (row) { return row.cells[column].dataset.v; });
  });
  seen.text = document.body.innerText;
}
`

// seen is the observations of the probe.
type seen struct {
	Page                     int
	Errors, Fetched, Outside []string
	Width, Scroll            int
	Wide, Slim               int
	Dark                     bool
	Paper, Ink, Tip, Text    string
	Columns                  [][]string
}

// framed is a page in a frame of this width; a browser's own window has at least 500 pixels.
type framed struct {
	name, text string
	width      int
}

// open shows pages in a browser, each with the probe, and returns the observations of the probes and the paths that
// were requested.
func open(t *testing.T, pages []framed, dark bool) (all []seen, asked []string) {
	t.Helper()
	dom, _, asked := browsertest.Open(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if n, err := strconv.Atoi(r.URL.Path[1:]); err == nil && n < len(pages) {
			_, _ = io.WriteString(w, withProbe(pages[n].text))
			return
		}
		fmt.Fprint(w, `<!doctype html><meta name="color-scheme" content="light dark"><link rel="icon" href="data:,">`)
		for i, p := range pages {
			fmt.Fprintf(w, `<iframe src="/%d" width="%d" height="900" style="border: 0"></iframe>`, i, p.width)
		}
	}), "1300,1000", dark)
	all = make([]seen, len(pages))
	for _, m := range regexp.MustCompile(`(?s)<pre>(.*?)</pre>`).FindAllStringSubmatch(dom, -1) {
		var s seen
		if err := json.Unmarshal([]byte(html.UnescapeString(m[1])), &s); err != nil {
			t.Fatal(err)
		}
		all[s.Page] = s
	}
	return all, asked
}

func withProbe(text string) string {
	text = strings.Replace(text, "script-src &#39;",
		"script-src &#39;"+html.EscapeString(page.Hash(probe))+"&#39; &#39;", 1)
	return strings.Replace(text, "<title>", "<script>"+probe+"</script><title>", 1)
}

func TestPageInABrowser(t *testing.T) {
	logging, ipc := exampleLogging(), exampleIPC()
	evil, _ := hostile()
	pages := []framed{{"logging", rendered(t, logging), 1200}, {"ipc", rendered(t, ipc), 360},
		{"logging", rendered(t, logging), 360},
		{"ipc", rendered(t, ipc), 1200}, {"hostile", rendered(t, evil), 360}}
	for _, dark := range []bool{false, true} {
		all, asked := open(t, pages, dark)
		if !slices.Equal(asked, []string{"/", "/0", "/1", "/2", "/3", "/4"}) {
			t.Errorf("asked for %q", asked)
		}
		for i, s := range all {
			t.Run(fmt.Sprintf("%s in %d, dark %v", pages[i].name, pages[i].width, dark), func(t *testing.T) {
				if !strings.Contains(s.Text, "How it was measured") || !strings.Contains(s.Text, "JSON") {
					t.Fatalf("the page is not whole: %+v", s)
				}
				checkSeen(t, s, pages[i].width, dark)
				checkUse(t, s)
			})
		}
	}
}

// checkSeen checks what does not depend on the use of the page.
func checkSeen(t *testing.T, s seen, width int, dark bool) {
	if len(s.Errors) > 0 || len(s.Fetched) > 0 {
		t.Errorf("errors %q, fetched %q", s.Errors, s.Fetched)
	}
	if s.Width != width || s.Scroll > width {
		t.Errorf("%d wide in a window of %d, which should be of %d", s.Scroll, s.Width, width)
	}
	if len(s.Outside) > 0 {
		t.Errorf("texts that stand out of their pictures: %q", s.Outside)
	}
	if narrowOnes := width < 640; (s.Slim > 0) != narrowOnes || (s.Wide > 0) == narrowOnes {
		t.Errorf("%d wide pictures and %d narrow ones", s.Wide, s.Slim)
	}
	paper, ink := "rgb(255, 255, 255)", "rgb(28, 33, 39)"
	if dark {
		paper, ink = "rgb(21, 24, 28)", "rgb(227, 231, 235)"
	}
	if s.Dark != dark || s.Paper != paper || s.Ink == "" ||
		!strings.Contains("rgb(28, 33, 39) rgb(91, 101, 112) rgb(227, 231, 235) rgb(154, 165, 176)", s.Ink) {
		t.Errorf("dark: %v, paper %s, ink %s, want %s and %s", s.Dark, s.Paper, s.Ink, paper, ink)
	}
}

// checkUse checks the tooltip, and that the first table is sorted by its last column.
func checkUse(t *testing.T, s seen) {
	if !regexp.MustCompile(`: [0-9.,]+`).MatchString(s.Tip) {
		t.Errorf("the tooltip says %q", s.Tip)
	}
	if len(s.Columns) != 2 || len(s.Columns[0]) < 4 {
		t.Fatalf("sorted %q", s.Columns)
	}
	for i, column := range s.Columns {
		var figures []float64
		for j, text := range column {
			f, err := strconv.ParseFloat(text, 64)
			if err != nil {
				if !slices.ContainsFunc(column[j:], func(s string) bool { return s != "" }) {
					break // empty cells are last
				}
				t.Fatalf("%q in %q", text, column)
			}
			figures = append(figures, f)
		}
		if i == 1 {
			slices.Reverse(figures)
		}
		if !slices.IsSorted(figures) || len(figures) < 3 {
			t.Errorf("sorted, time %d: %q", i+1, column)
		}
	}
}
