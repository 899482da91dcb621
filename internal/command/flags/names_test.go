package flags

import (
	"slices"
	"testing"

	"github.com/spf13/pflag"
)

func TestListsAreSplitAtCommas(t *testing.T) {
	for in, want := range map[string][]string{
		"a": {"a"}, "a,b": {"a", "b"}, `a\,b`: {"a,b"}, `odd"q`: {`odd"q`}, `"a,b"`: {`"a`, `b"`}, `DOM\user`: {`DOM\user`}, `a,`: {"a", ""}, "": {""},
	} {
		var list []string
		f := pflag.NewFlagSet("", pflag.ContinueOnError)
		AddNames(f, &list, "user", "u", "`users`")
		if err := f.Parse([]string{"--user", in, "-u", "last"}); err != nil || !slices.Equal(list, append(want, "last")) {
			t.Errorf("%q: %q, %v", in, list, err)
		}
		text := f.Lookup("user").Value.String()
		var again []string
		AddNames(pflag.NewFlagSet("", pflag.ContinueOnError), &again, "user", "", "")
		if (&names{&again}).Set(text) != nil || !slices.Equal(again, list) {
			t.Errorf("%q: %q is read as %q", in, text, again)
		}
	}
}
