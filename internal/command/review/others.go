// The reviews of a person, a value and a change.

package review

import (
	"bufio"
	"context"
	"errors"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pg-steno/pg_steno/internal/command/cmdutil"
	"github.com/pg-steno/pg_steno/internal/command/flags"
	"github.com/pg-steno/pg_steno/internal/exit"
	"github.com/pg-steno/pg_steno/internal/review"
	"github.com/pg-steno/pg_steno/internal/statement"
)

// ---- person ----

type personOptions struct {
	common
	review.PersonOptions
}

func newPerson(f *cmdutil.Factory) *cobra.Command {
	o := &personOptions{common: common{io: f.IO}}
	cmd := &cobra.Command{
		Use:   "person {--user NAME | --app-user NAME | --note TEXT} [TRAIL]...",
		Short: "Show all that somebody did, as a dossier",
		Long: `Show all that a user, or an end user behind a connection pool, did in a period:
sessions with addresses, tables and columns, exports, DDL and privileges, roles,
settings, failures, transactions with their outcome.

With --note, show what the sessions did that wrote a note with steno.note(), such
as 'INC-7 repair of invoices', each from the note to its end: for emergency access
that somebody has to account for.`,
		Example: `  steno review person --user alice --since yesterday
  steno review person --app-user alice@example.org --format markdown
  steno review person --note INC-7`,
		RunE: func(cmd *cobra.Command, args []string) error {
			o.trails = args
			if err := cmdutil.RefuseEmpty(cmd, "since", "until", "user", "app-user", "note"); err != nil {
				return err
			}
			return o.run(cmd.Context())
		},
	}
	o.add(cmd)
	fs := cmd.Flags()
	flags.AddNames(fs, &o.Users, "user", "u", "these session `users`")
	flags.AddNames(fs, &o.AppUsers, "app-user", "", "these end `users` behind a connection pool")
	fs.StringVar(&o.Note, "note", "", "the sessions with a note that has this `text` as a word, from the note on")
	fs.Uint64Var(&o.Large, "large", statement.BulkRows, "a result of this many `rows` is an export")
	return cmdutil.ReadsOnly(cmd)
}

func (o *personOptions) run(ctx context.Context) error {
	if len(o.Users)+len(o.AppUsers) == 0 && o.Note == "" {
		return exit.Usagef("give --user, --app-user or --note: whom the dossier is about")
	}
	source, done, err := o.open()
	if err != nil {
		return err
	}
	answers, err := source.ForEachServer(func(one review.Source) (*review.Document, error) {
		o.Source = one
		return review.ReviewPerson(ctx, o.PersonOptions)
	})
	done()
	if err != nil {
		return err
	}
	return o.write(answers...)
}

// ---- subject ----

type subjectOptions struct {
	common
	review.SubjectOptions
}

func newSubject(f *cmdutil.Factory) *cobra.Command {
	o := &subjectOptions{common: common{io: f.IO}}
	cmd := &cobra.Command{
		Use:   "subject --value VALUE [TRAIL]...",
		Short: "Find every statement that has a value, such as a person's key",
		Long: `Find every statement that has a value as a parameter, as a literal of its text, or
as an element of an array, a list or JSON in one of these: who used it, when, and
for what. It is for requests of data subjects: VALUE is a person's key.

Numbers, uuids, dates, times and network addresses are found however they are
written: 42 is 042 and 4.2e1. Everything else must be equal. The answer says what
cannot be found: values that were redacted or not recorded, and rows that
statements reached without naming the value.

Others can see the command line of a process: with --value -, the value is the
first line of standard input.`,
		Example: `  steno review subject --value 4711 --since '1 year ago'
  steno review subject --value 0b7cfa1e-3a51-4f2c-9d3a-6f0a3c1f2e4d \
    --format json
  steno review subject --value - <key`,
		RunE: func(cmd *cobra.Command, args []string) error {
			o.trails = args
			if err := cmdutil.RefuseEmpty(cmd, "since", "until", "value"); err != nil {
				return err
			}
			return o.run(cmd.Context())
		},
	}
	o.add(cmd)
	cmd.Flags().StringArrayVar(&o.Values, "value", nil, "the `value`; repeatable for several keys of a person")
	cmd.Flags().IntVar(&o.Limit, "limit", 100_000, "list this many `statements` at most")
	return cmdutil.ReadsOnly(cmd)
}

func (o *subjectOptions) run(ctx context.Context) error {
	if len(o.Values) == 0 {
		return exit.Usagef("give --value: what is looked for")
	}
	if o.Limit < 1 {
		return exit.Usagef("--limit must be 1 or more")
	}
	for i, v := range o.Values {
		if v == "-" {
			line, err := bufio.NewReader(o.io.In).ReadString('\n')
			if line = strings.TrimRight(line, "\r\n"); line == "" {
				return exit.Usagef("--value -: there is no value on standard input")
			} else if err != nil && !errors.Is(err, io.EOF) {
				return err
			}
			o.Values[i] = line
		}
	}
	source, done, err := o.open()
	if err != nil {
		return err
	}
	answers, err := source.ForEachServer(func(one review.Source) (*review.Document, error) {
		o.Source = one
		return review.ReviewSubject(ctx, o.SubjectOptions)
	})
	done()
	if err != nil {
		return err
	}
	return o.write(answers...)
}

// ---- change ----

type changeOptions struct {
	common
	review.ChangeOptions
	changes string
	keys    []string // as they were given
}

func newChange(f *cmdutil.Factory) *cobra.Command {
	o := &changeOptions{common: common{io: f.IO}}
	cmd := &cobra.Command{
		Use:   "change --changes FILE [TRAIL]...",
		Short: "Show who changed a row, with the output of logical decoding",
		Long: `Show who made the changes that logical decoding reports: session, user, address
and statement. The file has events of Debezium, one JSON object after the other,
or what pg_recvlogical has written with pgoutput and proto_version=1:

  pg_recvlogical -d shop --slot review --create-slot --plugin pgoutput
  pg_recvlogical -d shop --slot review --start -f changes --no-loop \
    -o proto_version=1 -o publication_names=everything

Changes and records are joined by transaction ID and by the position of the
commit, so IDs that are used again are told apart.`,
		Example: `  steno review change --changes changes --table hr.salary --key id=42
  steno review change --changes events.json --format json`,
		RunE: func(cmd *cobra.Command, args []string) error {
			o.trails = args
			if err := cmdutil.RefuseEmpty(cmd, "since", "until", "changes", "table", "key"); err != nil {
				return err
			}
			return o.run(cmd.Context())
		},
	}
	o.add(cmd)
	fs := cmd.Flags()
	fs.StringVar(&o.changes, "changes", "", "the `file` of changes (- for standard input)")
	fs.StringArrayVar(&o.Tables, "table", nil, "only changes of these `tables`, with or without their schemas; "+
		"repeatable")
	fs.StringArrayVar(&o.keys, "key", nil, "only changes of rows with this `column=value`, before or after; of "+
		"several, with all")
	fs.IntVar(&o.Limit, "limit", 100_000, "look at this many `changes` at most")
	return cmdutil.ReadsOnly(cmd)
}

func (o *changeOptions) run(ctx context.Context) error {
	if o.changes == "" {
		return exit.Usagef("--changes is required: a file of pg_recvlogical or Debezium")
	}
	if o.Limit < 1 {
		return exit.Usagef("--limit must be 1 or more")
	}
	for _, k := range o.keys {
		one, err := review.ParseColumnValue(k)
		if err != nil {
			return cmdutil.FlagError("key", err)
		}
		o.Keys = append(o.Keys, one)
	}
	o.Changes = o.io.In
	if o.changes != "-" {
		f, err := openInput(o.changes)
		if err != nil {
			return err
		}
		defer f.Close()
		o.Changes = f
	}
	source, done, err := o.open()
	if err != nil {
		return err
	}
	if err := source.RequireOneServer("a file of changes does not say of which it is"); err != nil {
		done()
		return o.otherServers(err)
	}
	o.Source = source
	answer, err := review.ReviewChange(ctx, o.ChangeOptions)
	done()
	if unusable := (*review.ChangesError)(nil); errors.As(err, &unusable) {
		return exit.Usagef("%s: %w", o.changes, err)
	}
	if err != nil {
		return err
	}
	return o.write(answer)
}
