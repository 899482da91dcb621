package compare

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/pflag"

	"github.com/pg-steno/pg_steno/internal/iostreams"
	"github.com/pg-steno/pg_steno/internal/lab/bench"
	"github.com/pg-steno/pg_steno/internal/lab/bench/report"
	"github.com/pg-steno/pg_steno/internal/lab/bench/result"
	"github.com/pg-steno/pg_steno/internal/lab/measure"
)

// Options are the flags of a comparison, and the folders of the two results.
type Options struct {
	measure.Environment
	A, B   string
	Format string
	All    bool
}

// New returns the comparison.
func New(e measure.Environment) *Options { return &Options{Environment: e} }

// AddFlags adds the flags.
func (o *Options) AddFlags(flags *pflag.FlagSet) {
	measure.AddFormat(flags, &o.Format)
	flags.BoolVar(&o.All, "all", false, "show unchanged figures, too; json always has them")
}

// Complete checks the flags.
func (o *Options) Complete(func(flag string) bool) error { return iostreams.CheckFormat(o.Format) }

// Run compares.
func (o *Options) Run(context.Context) error {
	a, err := read(o.A)
	if err != nil {
		return err
	}
	b, err := read(o.B)
	if err != nil {
		return err
	}
	c, err := Of(o.A, a, o.B, b)
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
