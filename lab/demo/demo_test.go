package demo

import (
	"context"
	"strings"
	"testing"

	"github.com/pg-steno/pg_steno/lab/cluster"
)

// The users' script must behave as described on a real server: statements that should fail must fail with the expected
// SQLSTATE, and the others must not.
func TestPeoplePerform(t *testing.T) {
	installation, err := cluster.Find("")
	if err != nil {
		t.Skipf("no PostgreSQL here: %v", err)
	}
	ctx := context.Background()
	lab, err := cluster.NewLab(ctx, installation, refused)
	if err != nil {
		t.Fatal(err)
	}
	defer lab.Close()
	s, err := lab.Start(ctx, "plain", []cluster.Setting{{Name: "log_statement", Value: "all"}})
	if err != nil {
		t.Fatal(err)
	}
	if err := perform(ctx, s); err != nil {
		t.Fatal(err)
	}
	got, err := s.Psql(ctx, "SELECT person, salary, since FROM payroll ORDER BY person")
	if err != nil {
		t.Fatal(err)
	}
	if want := "ann|4200.00|2019-03-01\nben|3997.50|2021-10-15\neve|5100.50|2024-02-29"; got != want {
		t.Errorf("the table holds\n%s\nwant\n%s", got, want)
	}
	if log := s.LogTail(100); !strings.Contains(log, `password authentication failed for user "mallory"`) {
		t.Errorf("no refused login in the log:\n%s", log)
	}
}
