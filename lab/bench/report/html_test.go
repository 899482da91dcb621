package report

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"regexp"
	"strings"
	"testing"

	"github.com/pg-steno/pg_steno/internal/page"
	"github.com/pg-steno/pg_steno/lab/bench/result"
)

func rendered(t *testing.T, r *result.Result) string {
	t.Helper()
	var b bytes.Buffer
	if err := HTML(&b, r); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

var picturesOf = regexp.MustCompile(`(?s)<svg xmlns.*?</svg>`)

func TestChartsAreWellFormed(t *testing.T) {
	for name, r := range examples() {
		pictures := picturesOf.FindAllString(rendered(t, r), -1)
		if len(pictures) < 2*len(r.Charts) {
			t.Errorf("%s: %d pictures of %d charts", name, len(pictures), len(r.Charts))
		}
		for _, picture := range pictures {
			for decoder := xml.NewDecoder(strings.NewReader(picture)); ; {
				if _, err := decoder.Token(); errors.Is(err, io.EOF) {
					break
				} else if err != nil {
					t.Fatalf("%s: %v in %s", name, err, picture)
				}
			}
		}
	}
}

// hostile returns a result with markup in every text.
func hostile() (*result.Result, string) {
	const evil = `"'><script>alert(1)</script><img src=http://x.test/>&amp;`
	r := exampleLogging()
	r.Title, r.Command, r.Steno, r.Postgres, r.Notes = evil, evil, evil, evil, []string{evil}
	r.Machine.CPU, r.Machine.Memory, r.Machine.Kernel, r.Machine.System = evil, evil, evil, evil
	r.Settings[0].Name, r.Settings[0].Value = evil, evil
	r.Parameters = []result.Parameter{{Name: evil, Value: evil}}
	for i := range r.Dimensions {
		r.Dimensions[i].Title = evil
		for j := range r.Dimensions[i].Values {
			r.Dimensions[i].Values[j].Title = evil
		}
	}
	for i := range r.Metrics {
		r.Metrics[i].Title, r.Metrics[i].Unit = evil, evil
	}
	for i := range r.Measures {
		for j := range r.Measures[i].Published {
			r.Measures[i].Published[j].Source, r.Measures[i].Published[j].Conditions = evil, evil
		}
	}
	for i := range r.Tables {
		r.Tables[i].Title = evil
	}
	for i := range r.Charts {
		r.Charts[i].Title, r.Charts[i].Note = evil, evil
	}
	for i := range r.Skipped {
		r.Skipped[i].Reason = evil
	}
	return r, evil
}

func TestTextsAreNoMarkup(t *testing.T) {
	r, _ := hostile()
	text := rendered(t, r)
	if n := strings.Count(text, "<script"); n != 1 {
		t.Errorf("%d scripts", n)
	}
	if strings.Contains(text, "<img") {
		t.Error("an image")
	}
	if n := strings.Count(text, "alert(1)"); n < 30 {
		t.Errorf("the hostile text is only there %d times", n)
	}
	// Bars truncate long names; everything else is shown completely, as text.
	if want := "<h1>&#34;&#39;&gt;&lt;script&gt;alert(1)&lt;/script&gt;&lt;img " +
		"src=http://x.test/&gt;&amp;amp;</h1>"; !strings.Contains(text, want) {
		t.Errorf("no %s", want)
	}
}

var reference = regexp.MustCompile(`(?i)(?:href|src|srcset|action|data|poster)="([^"]*)"|url\(([^)]*)\)|@import`)

// A page may refer only to itself, and its policy must allow its own style and script.
func TestPageRefersToNothing(t *testing.T) {
	for name, r := range examples() {
		text := rendered(t, r)
		for _, m := range reference.FindAllStringSubmatch(text, -1) {
			if m[1] != "data:," {
				t.Errorf("%s: %s", name, m[0])
			}
		}
		for _, element := range []string{"style", "script"} {
			m := regexp.MustCompile(`(?s)<`+element+`>(.*?)</`+element+`>`).FindAllStringSubmatch(text, -1)
			if len(m) != 1 {
				t.Fatalf("%s: %d elements %s", name, len(m), element)
			}
			if want := element + "-src &#39;" + strings.ReplaceAll(page.Hash(m[0][1]), "+",
				"&#43;"); !strings.Contains(text, want) {
				t.Errorf("%s: the policy has no %s", name, want)
			}
		}
		if strings.Contains(text, " style=") {
			t.Errorf("%s: a style attribute, which the policy forbids", name)
		}
	}
}

func TestPageHasEverything(t *testing.T) {
	text := rendered(t, exampleLogging())
	for _, want := range []string{
		`role="note">This machine was busy: 37 %`, "A &amp; B &lt;CPU&gt; 9000", "6.1.0-38-amd64", "7.7 GiB",
		"15.20 (Debian 15.20-0&#43;deb12u1)", "<code>shared_buffers</code></dt><dd><code>256MB",
		"Settings of log_statement=all",
		"steno bench logging --clients 1,16 --output &#34;a &lt;b&gt;&#34;", "seconds of a slice</dt><dd>2",
		"pgaudit.so is not installed &lt;here&gt; (2)", "Two cores cannot show how &lt;many&gt; cores",
		"0.920<sup>1</sup>, 0.850<sup>2</sup>", "<li>A, 2018: PostgreSQL 10, csvlog, 56 clients</li>",
		"published by others",
		`<span class="range">[0.664, 0.742]</span>`, "medians of 7 samples", "98 % confidence",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %s", want)
		}
	}
	r := exampleLogging()
	r.Busy.Before, r.Busy.Steal = 0, 0
	if text := rendered(t, r); strings.Contains(text, "busy") {
		t.Error("a warning of a machine that was not busy")
	}
	if !strings.Contains(text, "37.0 % of the processors, load 1.50") || !strings.Contains(rendered(t, r), "load 1.50") {
		t.Error("no facts of how busy the machine was")
	}
	if r.Busy.Load = 0; strings.Contains(rendered(t, r), "load 0") {
		t.Error("facts where nobody has looked")
	}
}

// A run that was stopped early, or whose cases were all skipped, still has a report.
func TestResultWithoutFiguresIsShown(t *testing.T) {
	empty := &result.Result{Title: "Nothing"}
	skipped := exampleIPC()
	skipped.Tables = skipped.Tables[:1]
	skipped.Tables[0].Columns = []result.Column{{Metric: "rate"}}
	skipped.Samples, skipped.Measures, skipped.Bases = nil, nil, nil
	for name, r := range map[string]*result.Result{"empty": empty, "skipped": skipped} {
		var b strings.Builder
		Terminal{Width: 100}.Text(&b, r)
		if text := rendered(t, r); !strings.Contains(text, "<h1>"+r.Title) || strings.Contains(text, "<figure>") {
			t.Errorf("%s: %s", name, text)
		}
		none := strings.Contains(b.String(), "Messages\n  nothing was measured\n")
		if !strings.HasPrefix(b.String(), r.Title+"\n") || none != (name == "skipped") {
			t.Errorf("%s: %s", name, b.String())
		}
	}
}
