package compare

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/pg-steno/pg_steno/internal/command/cmdutil"
	"github.com/pg-steno/pg_steno/internal/lab/bench"
	"github.com/pg-steno/pg_steno/internal/lab/bench/report"
	"github.com/pg-steno/pg_steno/internal/lab/bench/result"
)

type options struct {
	*cmdutil.Factory
	Format string
	All    bool
}

// NewCmd returns "steno bench compare".
func NewCmd(f *cmdutil.Factory) *cobra.Command {
	o := &options{Factory: f}
	cmd := &cobra.Command{
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
		Args: cmdutil.Args(cobra.ExactArgs(2)),
		RunE: func(_ *cobra.Command, args []string) error {
			if err := cmdutil.CheckFormat(o.Format); err != nil {
				return err
			}
			return o.run(args[0], args[1])
		},
	}
	flags := cmd.Flags()
	cmdutil.AddFormat(cmd, &o.Format)
	flags.BoolVar(&o.All, "all", false, "show unchanged figures, too; json always has them")
	return cmd
}

// wrapRule is the rule, broken for the help text.
const wrapRule = `A figure has changed when the
intervals of its two medians do not overlap; there is no verdict on fewer than
four samples.`

func (o *options) run(nameA, nameB string) error {
	a, err := read(nameA)
	if err != nil {
		return err
	}
	b, err := read(nameB)
	if err != nil {
		return err
	}
	c, err := Of(nameA, a, nameB, b)
	if err != nil {
		return err
	}
	if o.Format == "json" {
		return json.NewEncoder(o.IO.Out).Encode(c)
	}
	w := bufio.NewWriter(o.IO.Out)
	c.Text(w, report.Terminal{Width: 100, Color: o.IO.ColorEnabled()}, o.All)
	return w.Flush()
}

// read reads a folder's result, of "steno bench overhead" too.
func read(dir string) (*result.Result, error) {
	r, err := result.Read(dir)
	if !errors.Is(err, os.ErrNotExist) {
		return r, err
	}
	old, err := bench.ReadReport(dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("no result.json or report.json in \"%s\"", dir)
	}
	if err != nil {
		return nil, err
	}
	return old.Result(), nil
}
