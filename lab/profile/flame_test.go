package profile

import (
	"bytes"
	"encoding/json"
	"html"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/pg-steno/pg_steno/internal/browsertest"
	"github.com/pg-steno/pg_steno/internal/page"
	"github.com/pg-steno/pg_steno/lab/perf"
)

func flame(t *testing.T, p *Profile) string {
	t.Helper()
	r := &Report{Server: Server{Version: "15 </script><b>"}}
	summarize(r, p, nil)
	var b bytes.Buffer
	if err := writeFlame(&b, r, p); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestFlameGraphHoldsTheStacks(t *testing.T) {
	p := example()
	p.Add(Stack{Process: backend, Frames: []perf.Frame{{Symbol: "</script><script>alert(1)", Object: "/x"}}, Samples: 1,
		Seconds: 0.1})
	page := flame(t, p)
	m := regexp.MustCompile(`(?s)id="data">(.*?)</script>`).FindStringSubmatch(page)
	if m == nil {
		t.Fatal("no data in the page")
	}
	var d flameData
	if err := json.Unmarshal([]byte(m[1]), &d); err != nil {
		t.Fatal(err)
	}
	if len(d.Views) != 2 || d.Views[0].Root.Samples != 3501 || d.Views[1].Root.Samples != 50 {
		t.Fatalf("got views %+v", d.Views)
	}
	var check func(n *node)
	check = func(n *node) {
		sum := 0
		for _, c := range n.Children {
			sum += c.Samples
			check(c)
		}
		if sum > n.Samples {
			t.Errorf("%s has %d samples, its children %d", n.Name, n.Samples, sum)
		}
	}
	check(d.Views[0].Root)
	if strings.Contains(page, "secure_read") {
		t.Error("idle sessions are in the graph")
	}
	if strings.Count(page, "</script>") != 2 || strings.Contains(page, "<b>") {
		t.Error("a name ends the script")
	}
	if regexp.MustCompile(`https?://|src=|@import|url\(`).MatchString(page) {
		t.Error("the page loads something")
	}
}

func TestFlameGraphOfNothing(t *testing.T) {
	if page := flame(t, &Profile{}); !strings.Contains(page, `"n":"on processors"`) {
		t.Error("no root")
	}
}

// The page is looked at in a browser: drawn, zoomed, searched, switched.
func TestFlameGraphInABrowser(t *testing.T) {
	const act = `
addEventListener("load", () => {
  const say = [], boxes = () => [...document.querySelectorAll("#graph div")];
  const box = (name) => boxes().find((b) => b.textContent === name);
  const width = (name) => Math.round(100 * box(name).getBoundingClientRect().width / document.getElementById("graph").clientWidth);
  const search = document.getElementById("search");
  say.push("drawn " + boxes().length, "executor " + width("standard_ExecutorRun"));
  box("standard_ExecutorRun").dispatchEvent(new MouseEvent("mousemove", {clientX: 5, clientY: 5}));
  say.push("tip " + document.getElementById("tip").textContent);
  box("errfinish").click();
  say.push("zoomed " + width("errfinish"));
  document.getElementById("reset").click();
  search.value = "pipe_";
  search.dispatchEvent(new Event("input"));
  say.push("found " + document.getElementById("found").textContent, "hits " + document.querySelectorAll(".hit").length);
  document.querySelectorAll("#views button")[1].click();
  say.push("waits " + width("errfinish"));
  const before = document.documentElement.dataset.theme;
  document.getElementById("theme").click();
  say.push("theme " + (before !== document.documentElement.dataset.theme));
  say.push("wider " + (document.documentElement.scrollWidth > innerWidth));
  document.title = say.join("; ");
});
`
	text := strings.Replace(flame(t, example()), "</body>", "<script>"+act+"</script></body>", 1)
	text = strings.Replace(text, "script-src ", "script-src &#39;"+html.EscapeString(page.Hash(act))+"&#39; ", 1)
	dom, _, _ := browsertest.Open(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, text) }), "400,700", false)
	title := regexp.MustCompile(`<title>(.*?)</title>`).FindStringSubmatch(dom)
	// of the 35 s on processors the executor has 20 below PortalRun, the pipe 5
	want := "drawn 16; executor 57; tip standard_ExecutorRun — 2000 samples, 20.000 s, 57.14 % of processors; " +
		"mostly: running statements; " +
		"zoomed 100; found 14.29 % matched; hits 1; waits 100; theme true; wider false"
	if title == nil || title[1] != want {
		t.Errorf("got\n%s, want\n%s", title, want)
	}
}
