package command

import (
	"github.com/spf13/cobra"

	"github.com/pg-steno/pg_steno/internal/command/cmdutil"
	"github.com/pg-steno/pg_steno/internal/lab/bench/compare"
	"github.com/pg-steno/pg_steno/internal/lab/measure"
)

// newCmdCompare returns "steno bench compare".
func newCmdCompare(e measure.Environment) *cobra.Command {
	o := compare.New(e)
	return measuring(cobra.Command{
		Use:   "compare A B",
		Short: "Show what changed between two benchmark runs, beyond noise",
		Long: `Compare two results of the same benchmark, named by the folders that they were
written to with --output. The other differences between the runs come first:
machine, versions, settings, parameters. Then come the figures that have changed,
the largest change first. ` + wrapRule + `

A figure is the median of a metric of one case; or the median of its ratios to
the base, if both results have them: ratios are of samples that were taken close
to each other, so they can be compared across machines and days even if the
values themselves cannot. If there are very many figures, a few differ by chance.

The exit code is 0 whether or not anything has changed.`,
		Example: `  steno bench compare bench/results/before bench/results/after
  steno bench compare --all --format json before after`,
		Args: func(cmd *cobra.Command, args []string) error {
			if err := cmdutil.Args(cobra.ExactArgs(2))(cmd, args); err != nil {
				return err
			}
			o.A, o.B = args[0], args[1]
			return nil
		},
	}, o)
}

// wrapRule is the rule, broken for the help text.
const wrapRule = `A figure has changed if the
intervals of its two medians do not overlap; with fewer than four samples, there
is no verdict.`
