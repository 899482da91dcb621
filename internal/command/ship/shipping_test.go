package ship

import (
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/pg-steno/pg_steno/internal/ship"
)

// manual is docs/shipping.md.
func manual(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "shipping.md"))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// keysOf collects the keys of a struct, and of those inside it.
func keysOf(of reflect.Type, keys map[string]bool) {
	for i := range of.NumField() {
		field := of.Field(i)
		name, _, _ := strings.Cut(field.Tag.Get("yaml"), ",")
		if name != "" && name != "-" {
			keys[name] = true
		}
		inside := field.Type
		for inside.Kind() == reflect.Map || inside.Kind() == reflect.Pointer {
			inside = inside.Elem()
		}
		if inside.Kind() == reflect.Struct && name != "-" {
			keysOf(inside, keys)
		}
	}
}

// TestEachKeyIsDocumented: docs/shipping.md has each key that a configuration may have, and the schemes of all sinks.
func TestEachKeyIsDocumented(t *testing.T) {
	page := manual(t)
	keys := map[string]bool{}
	keysOf(reflect.TypeFor[ship.Config](), keys)
	for _, k := range kinds {
		keysOf(reflect.TypeOf(k.Options()).Elem(), keys)
		for _, scheme := range k.Schemes {
			if !strings.Contains(page, scheme+":") && !strings.Contains(page, "`"+scheme+"`") {
				t.Errorf("docs/shipping.md lacks the scheme %s", scheme)
			}
		}
	}
	if len(keys) < 40 {
		t.Fatalf("only %d keys were found", len(keys))
	}
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		if !strings.Contains(page, "`"+key+"`") {
			t.Errorf("docs/shipping.md lacks the key %s", key)
		}
	}
}

// TestTheExampleIsAConfiguration: the file in docs/shipping.md is one.
func TestTheExampleIsAConfiguration(t *testing.T) {
	_, example, found := strings.Cut(manual(t), "    # /etc/steno/ship.yaml\n")
	if !found {
		t.Fatal("docs/shipping.md has no example")
	}
	example, _, _ = strings.Cut(example, "\n\n")
	c, err := ship.Parse([]byte(strings.ReplaceAll("\n"+example, "\n    ", "\n")), kinds)
	if err != nil {
		t.Fatalf("%v:\n%s", err, example)
	}
	if len(c.Sinks) != 2 {
		t.Errorf("it has %d sinks", len(c.Sinks))
	}
}
