// The reviews of a person, a value and a change.

package review

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/pg-steno/pg_steno/internal/command/cmdutil"
	"github.com/pg-steno/pg_steno/internal/exit"
	"github.com/pg-steno/pg_steno/internal/review"
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
	fs.StringSliceVarP(&o.Users, "user", "u", nil, "these session `users`")
	fs.StringSliceVar(&o.AppUsers, "app-user", nil, "these end `users` behind a connection pool")
	fs.StringVar(&o.Note, "note", "", "the sessions with a note that has this `text` as a word, from the note on")
	fs.Uint64Var(&o.Large, "large", 10_000, "a result of this many `rows` is an export")
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
	o.Source = source
	answer, err := review.ReviewPerson(ctx, o.PersonOptions)
	done()
	if err != nil {
		return err
	}
	return o.write(answer)
}
