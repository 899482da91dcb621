// lib/pq: the simple and the extended protocol, prepared statements, COPY, failures.
package main

import (
	"database/sql"
	"fmt"
	"os"
	"time"

	"github.com/lib/pq"
)

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func rows(r *sql.Rows, err error) {
	check(err)
	for more := true; more; more = r.NextResultSet() {
		for r.Next() {
		}
	}
	check(r.Err())
	check(r.Close())
}

func main() {
	for _, binary := range []string{"", " binary_parameters=yes"} {
		db, err := sql.Open("postgres", "sslmode=disable"+binary)
		check(err)
		db.SetMaxOpenConns(1)
		client(db)
		check(db.Close())
	}
}

func client(db *sql.DB) {
	for n := range 10 {
		rows(db.Query("SELECT id, name FROM items WHERE id <= $1", n))
	}
	rows(db.Query("SELECT 1; SELECT id FROM items WHERE id < 4"))
	rows(db.Query("SELECT $1::text, $2::int", "it's", nil))
	rows(db.Query("SELECT nested($1)", 10))
	rows(db.Query("CALL add($1, $2)", 1, "lib/pq"))
	s, err := db.Prepare("UPDATE items SET ok = $1 WHERE id = $2")
	check(err)
	for n := range 8 {
		_, err = s.Exec(n%2 == 0, n)
		check(err)
		time.Sleep(5 * time.Millisecond)
	}
	check(s.Close())
	tx, err := db.Begin()
	check(err)
	c, err := tx.Prepare(pq.CopyIn("log", "item", "what"))
	check(err)
	for n := range 10 {
		_, err = c.Exec(n, "copied")
		check(err)
	}
	_, err = c.Exec()
	check(err)
	check(c.Close())
	time.Sleep(30 * time.Millisecond)
	rows(tx.Query("SELECT id FROM log WHERE what = $1 LIMIT 5", "copied"))
	time.Sleep(30 * time.Millisecond)
	check(tx.Commit())
	for _, text := range []string{"SELEC 1", "SELECT * FROM nowhere", "SELECT 1/0", "SELECT fails(3)",
		"INSERT INTO deferred VALUES (1)"} {
		if _, err := db.Exec(text); err == nil {
			check(fmt.Errorf("%s did not fail", text))
		}
	}
	rows(db.Query("SELECT pg_sleep(0.02)"))
}
