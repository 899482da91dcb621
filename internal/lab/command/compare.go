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
		Short: "Say what changed between two runs of a bench beyond noise",
		Long: `Compare two results of the same bench, given by the folders that they were
written to with --output. First comes what differs between the runs besides
their figures: machine, versions, settings, parameters. Then the figures that
have changed, the largest change first. ` + wrapRule + `

A figure is the median of a metric of one case, or the median of its ratios to
the base, when both results have them: ratios are of samples that were taken
close to each other, so they can be compared across machines and days where the
values themselves cannot. Of very many figures a few differ by chance.

The exit code is 0 whatever has changed.`,
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
const wrapRule = `A figure has changed when the
intervals of its two medians do not overlap; there is no verdict on fewer than
four samples.`
