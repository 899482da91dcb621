package query

import (
	"os"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/pg-steno/pg_steno/internal/command/cli"
	"github.com/pg-steno/pg_steno/internal/trail/trailtest"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"steno":       func() { os.Exit(cli.Main()) },
		"steno-query": func() { os.Exit(Main()) },
	})
}

// TestScripts runs the programs in testdata/script. They find the golden trails in $GOLDEN.
func TestScripts(t *testing.T) {
	golden := trailtest.Golden(t)
	testscript.Run(t, testscript.Params{
		Dir:           "testdata/script",
		UpdateScripts: os.Getenv("STENO_UPDATE") != "",
		Setup: func(e *testscript.Env) error {
			e.Vars = append(e.Vars, "GOLDEN="+golden, "STENO_DIRECTORY=", "PGDATA=")
			return nil
		},
	})
}
