package docs

import (
	"path"
	"regexp"
	"strings"
	"testing"
)

// linked are the pages that a page links to, by their paths from the top.
func linked(from, text string) (pages []string) {
	for _, m := range link.FindAllStringSubmatch(fence.ReplaceAllString(text, ""), -1) {
		file, _, _ := strings.Cut(m[1], "#")
		if strings.HasSuffix(file, ".md") && !strings.Contains(file, "://") {
			pages = append(pages, path.Join(path.Dir(from), file))
		}
	}
	return pages
}

// TestEachPageIsReachableFromTheFirst page, docs/README.md, by links of pages in docs.
func TestEachPageIsReachableFromTheFirst(t *testing.T) {
	reached := map[string]bool{"docs/README.md": true}
	for next := []string{"docs/README.md"}; len(next) > 0; {
		page := next[0]
		next = next[1:]
		for _, to := range linked(page, contents(t, page)) {
			if strings.HasPrefix(to, "docs/") && !reached[to] {
				reached[to] = true
				next = append(next, to)
			}
		}
	}
	for _, page := range documents(t) {
		if strings.HasPrefix(page, "docs/") && !reached[page] {
			t.Errorf("no link leads from docs/README.md to %s", page)
		}
	}
	if root := contents(t, "README.md"); !strings.Contains(root, "](docs/README.md)") {
		t.Error("README.md has no link to docs/README.md")
	}
}

// TestPathsAreShort: each path of docs/README.md has three to six steps, and says of each what is there.
func TestPathsAreShort(t *testing.T) {
	step := regexp.MustCompile(`(?m)^\d\. .*(?:\n   .*)*`)
	sections := strings.Split(contents(t, "docs/README.md"), "\n## ")[1:]
	if len(sections) != 6 {
		t.Errorf("%d paths", len(sections))
	}
	for _, s := range sections {
		name, _, _ := strings.Cut(s, "\n")
		steps := step.FindAllString(s, -1)
		if len(steps) < 3 || len(steps) > 6 {
			t.Errorf("%s: %d steps", name, len(steps))
		}
		for _, one := range steps {
			if text := link.ReplaceAllString(one, ""); len(linked("docs/README.md", one)) == 0 || len(strings.Fields(text)) < 6 {
				t.Errorf("%s: no link, or no sentence: %s", name, one)
			}
		}
	}
}
