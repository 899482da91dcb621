// The help of a command: its flags under headings, in lines that fit on a terminal of 80 columns.

package cmdutil

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

const (
	helpWidth = 79 // of a line
	helpText  = 28 // the column at which explanations begin
)

// Wrap breaks a text into lines that begin with indent spaces.
func Wrap(text string, indent int) string {
	var b strings.Builder
	column := 0
	for _, word := range words(text, helpWidth-indent) {
		switch n := utf8.RuneCountInString(word); {
		case column == 0:
			fmt.Fprintf(&b, "%*s%s", indent, "", word)
			column = indent + n
		case column+1+n > helpWidth:
			fmt.Fprintf(&b, "\n%*s%s", indent, "", word)
			column = indent + n
		default:
			b.WriteString(" " + word)
			column += 1 + n
		}
	}
	return b.String()
}

// words returns the words of a text. Lists that are too long for a line are divided after commas.
func words(text string, width int) (all []string) {
	for word := range strings.FieldsSeq(text) {
		for len(word) > width {
			at := strings.LastIndex(word[:width], ",") + 1
			if at == 0 {
				break
			}
			all, word = append(all, word[:at]), word[at:]
		}
		all = append(all, word)
	}
	return all
}

// FlagDefault returns the default of a flag as help shows it; empty if it shows none.
func FlagDefault(f *pflag.Flag) string {
	switch value := f.DefValue; value {
	case "", "false", "[]", "0", "0s":
		return ""
	default:
		return fmt.Sprintf(" (default %s)", strings.Trim(value, "[]"))
	}
}

// FlagHelp explains flags, each from a line of its own on.
func FlagHelp(flags []*pflag.Flag) string {
	var b strings.Builder
	for _, f := range flags {
		value, usage := pflag.UnquoteUsage(f)
		b.WriteString(explained(f, "--"+f.Name, value, usage+FlagDefault(f)))
	}
	return b.String()
}

// FilterHelp explains filters together with their opposites, which have the same names after "not-".
func FilterHelp(filters []*pflag.Flag) string {
	var b strings.Builder
	for _, f := range filters {
		value, usage := pflag.UnquoteUsage(f)
		b.WriteString(explained(f, "--"+f.Name+", --not-"+f.Name, value, strings.TrimPrefix(usage, "only ")))
	}
	return b.String()
}

func explained(f *pflag.Flag, names, value, text string) string {
	short := "    "
	if f.Shorthand != "" {
		short = "-" + f.Shorthand + ", "
	}
	name := strings.TrimRight("  "+short+names+" "+value, " ")
	text = Wrap(text, helpText)
	if n := utf8.RuneCountInString(name); n < helpText-1 {
		return name + text[n:] + "\n"
	}
	return name + "\n" + text + "\n"
}

// sharedHelp returns the help of the filters that commands share.
func sharedHelp(filters []*pflag.Flag) string {
	return Wrap(`See "steno help filters": `+NameFilters(filters), 2) + "\n"
}

// FlagsHelp returns the help of all flags of a command, under their headings.
func FlagsHelp(cmd *cobra.Command) string {
	var b strings.Builder
	all := ListFlags(cmd)
	for i, l := range all {
		heading := string(l.Heading)
		if len(all) == 1 || l.Heading == "" {
			heading = "Flags"
		}
		if i > 0 {
			b.WriteString("\n")
		}
		b.WriteString(heading + ":\n")
		shared, others := SplitShared(l.Flags)
		b.WriteString(FlagHelp(others))
		if len(shared) > 0 {
			b.WriteString(sharedHelp(shared))
		}
	}
	return b.String()
}

// Usage returns the part of a command's help after its text.
func Usage(cmd *cobra.Command) string {
	var b strings.Builder
	b.WriteString("Usage:\n")
	if cmd.HasAvailableSubCommands() { // the command does nothing itself
		fmt.Fprintf(&b, "  %s COMMAND\n", cmd.CommandPath())
	} else {
		b.WriteString(strings.ReplaceAll(Wrap(cmd.UseLine(), 2), "\n", "\n    ") + "\n")
	}
	if cmd.HasExample() {
		fmt.Fprintf(&b, "\nExamples:\n%s\n", cmd.Example)
	}
	commands := func(title, group string) {
		first := true
		for _, c := range cmd.Commands() {
			if c.GroupID == group && (c.IsAvailableCommand() || c.Name() == "help") {
				if first {
					fmt.Fprintf(&b, "\n%s\n", title)
					first = false
				}
				b.WriteString(listed(cmd, c))
			}
		}
	}
	for _, g := range cmd.Groups() {
		commands(g.Title, g.ID)
	}
	commands("Commands:", "")
	if cmd.HasHelpSubCommands() {
		b.WriteString("\nFurther help:\n")
		for _, c := range cmd.Commands() {
			if c.IsAdditionalHelpTopicCommand() {
				b.WriteString(listed(cmd, c))
			}
		}
	}
	if cmd.HasAvailableLocalFlags() {
		b.WriteString("\n" + FlagsHelp(cmd))
	}
	if cmd.HasAvailableSubCommands() {
		fmt.Fprintf(&b, "\n\"%s COMMAND --help\" shows the help of a command.\n", cmd.CommandPath())
	}
	return b.String()
}

// listed returns the line about a command in the help of its parent.
func listed(parent, c *cobra.Command) string {
	padding := parent.Commands()[0].NamePadding()
	return fmt.Sprintf("  %-*s %s\n", padding, c.Name(), strings.TrimLeft(Wrap(c.Short, padding+3), " "))
}

// Text returns the text of a command's help, with paragraphs filled, except those with indented lines, which are
// tables.
func Text(cmd *cobra.Command) string {
	text := cmd.Long
	if text == "" {
		text = cmd.Short + "."
	}
	paragraphs := strings.Split(strings.TrimSpace(text), "\n\n")
	for i, p := range paragraphs {
		if !strings.HasPrefix(p, " ") && !strings.Contains(p, "\n ") && !strings.Contains(p, "\n\t") {
			paragraphs[i] = Wrap(p, 0)
		}
	}
	return strings.Join(paragraphs, "\n\n") + "\n"
}

// UseHelp makes a program print its help in this form, and complete the names of help topics.
func UseHelp(root *cobra.Command) {
	root.InitDefaultHelpCmd()
	if help, _, err := root.Find([]string{"help"}); err == nil && help != root {
		ofCommands := help.ValidArgsFunction
		help.ValidArgsFunction = func(cmd *cobra.Command, args []string, begun string) ([]cobra.Completion,
			cobra.ShellCompDirective) {
			all, directive := ofCommands(cmd, args, begun)
			for _, c := range root.Commands() {
				if len(args) == 0 && c.IsAdditionalHelpTopicCommand() && strings.HasPrefix(c.Name(), begun) {
					all = append(all, cobra.CompletionWithDesc(c.Name(), c.Short))
				}
			}
			return all, directive
		}
	}
	root.SetUsageFunc(func(cmd *cobra.Command) error {
		_, err := io.WriteString(cmd.OutOrStderr(), Usage(cmd))
		return err
	})
	root.SetHelpFunc(func(cmd *cobra.Command, _ []string) {
		text := Text(cmd)
		if cmd.Runnable() || cmd.HasSubCommands() {
			text += "\n" + cmd.UsageString()
		}
		_, _ = io.WriteString(cmd.OutOrStdout(), text)
	})
}
