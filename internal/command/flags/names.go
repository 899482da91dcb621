// The form of flags that take a list of names.

package flags

import (
	"strings"

	"github.com/spf13/pflag"
)

// names is a list of values, repeated or separated by commas. Quotes are part of a value, and so is a comma after a
// backslash.
type names struct {
	list *[]string
}

// AddNames adds a flag with a list of values.
func AddNames(f *pflag.FlagSet, p *[]string, name, short, usage string) {
	addNames(f, p, name, short, usage+`; commas separate several, \, is one in a name`)
}

// addNames is AddNames without a note about commas in the help.
func addNames(f *pflag.FlagSet, p *[]string, name, short, usage string) {
	f.VarP(&names{p}, name, short, usage)
}

func (n *names) Set(s string) error {
	*n.list = append(*n.list, split(s)...)
	return nil
}

// split splits at commas that have no backslash before them.
func split(s string) (all []string) {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		switch {
		case s[i] == '\\' && i+1 < len(s) && s[i+1] == ',':
			b.WriteByte(',')
			i++
		case s[i] == ',':
			all = append(all, b.String())
			b.Reset()
		default:
			b.WriteByte(s[i])
		}
	}
	return append(all, b.String())
}

func (n *names) Type() string { return "strings" }

// String returns the list in the form that Set reads.
func (n *names) String() string {
	var all []string
	for _, v := range *n.list {
		all = append(all, listValue(v))
	}
	return strings.Join(all, ",")
}

// listValue returns a value in the form that Set reads.
func listValue(s string) string { return strings.ReplaceAll(s, ",", `\,`) }

// Append, Replace and GetSlice make it a pflag.SliceValue.
func (n *names) Append(v string) error {
	*n.list = append(*n.list, v)
	return nil
}

func (n *names) Replace(v []string) error {
	*n.list = v
	return nil
}

func (n *names) GetSlice() []string { return *n.list }
