// Package measuretest has helpers for tests of measurements.
package measuretest

import (
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/pg-steno/pg_steno/internal/iostreams"
	"github.com/pg-steno/pg_steno/lab/measure"
)

// Parse parses flags without spaces, and returns the measurement with these flags, or the error.
func Parse[M measure.Measurement](make func(measure.Environment) M, line string) (M, error) {
	streams, _, _, _ := iostreams.Test()
	return ParseWith(streams, make, line)
}

// ParseWith is like Parse, for a measurement that will run with these streams.
func ParseWith[M measure.Measurement](streams *iostreams.IOStreams, make func(measure.Environment) M,
	line string) (M, error) {
	m := make(measure.Environment{IO: streams, Version: "1.2"})
	flags := pflag.NewFlagSet("test", pflag.ContinueOnError)
	m.AddFlags(flags)
	if err := flags.Parse(strings.Fields(line)); err != nil {
		return m, err
	}
	return m, m.Complete(flags.Changed)
}

// Refused tests that each of these lines is rejected as wrong usage, with an error that contains the text.
func Refused[M measure.Measurement](t *testing.T, make func(measure.Environment) M, lines map[string]string) {
	t.Helper()
	for line, want := range lines {
		if _, err := Parse(make, line); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want an error with %q", line, err, want)
		}
	}
}
