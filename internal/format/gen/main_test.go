package main

import (
	"os"
	"strings"
	"testing"
)

// numbered is what format version 1 numbers, and how output names it. Lists only grow at their ends; what stands here
// is never changed, also when nothing writes it any more (docs/format-policy.md).
var numbered = map[string]string{
	"KIND":        "1 statement, 2 start, 3 connect, 4 auth_failed, 5 disconnect, 6 transaction, 7 setting, 8 note, 9 gap, 10 server, 11 seal, 12 subtransaction, 64 data, 65 run, 66 times, 128 session, 129 shape, 130 text, 131 index, 132 form, 133 variant",
	"FIELD":       "0 shape, 1 text, 2 rows, 3 time, 4 duration_us, 5 nulls, 6 params, 7 seq, 8 statement, 9 depth, 10 outcome, 11 sqlstate, 12 xid, 13 text_bytes, 14 parts, 15 extra, 16 audited, 17 event, 18 statements, 19 commit_lsn",
	"OUTCOME":     "0 ok, 1 error, 2 interrupted, 3 running",
	"EVENT":       "1 commit, 2 abort, 3 prepare, 4 commit prepared, 5 rollback prepared",
	"CLASS":       "1 read, 2 write, 3 function, 4 role, 5 ddl, 6 misc, 7 misc_set, 8 connect, 9 error, 10 transaction, 11 setting",
	"SESSION_KEY": "1 backend_type, 2 user, 3 database, 4 role, 5 application, 6 app_user, 7 client, 8 auth_method, 9 identity, 10 app_context, 11 leader, 12 leader_substatement, 13 encoding",
	"ACCESS":      "0 select, 1 insert, 2 update, 3 delete, 4 truncate, 5 references, 6 audited, 7 named",
	"AUDITED":     "0 session, 1 object, 2 mandatory, 3 rule",
	"ACTION":      "0 use, 1 create, 2 alter, 3 drop, 4 rename, 5 execute",
	"LIST":        "1 columns, 2 prepared, 3 query",
	"RELTYPE":     "0 relation, 1 table, 2 view, 3 materialized view, 4 sequence, 5 foreign table, 6 toast table, 7 index, 8 composite type",
	"TERMS":       "1 users, 2 databases, 3 roles, 4 applications, 5 app_users, 6 encodings, 7 results, 8 sqlstates, 9 classes, 10 commands, 11 relations, 12 columns, 13 objects, 14 values, 15 trigrams, 16 omissions",
	"REPR":        "0 none, 1 bool, 2 int2, 3 int4, 4 int8, 5 float4, 6 float8, 7 oid, 8 text, 9 bytea, 10 numeric, 11 uuid, 12 date, 13 time, 14 timetz, 15 timestamp, 16 timestamptz, 17 interval, 18 inet, 19 cidr, 20 char, 21 list",
	"CODEC":       "0 none, 1 lz4, 2 zstd",
}

func TestGeneratedFilesMatchDefinition(t *testing.T) {
	t.Chdir("..")
	files, err := generate()
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range files {
		if have, err := os.ReadFile(path); err != nil || string(have) != string(want) {
			t.Errorf("%s is not as it is generated (%v): run go generate ./internal/trail", path, err)
		}
	}
	if len(files) != 8 {
		t.Errorf("%d files", len(files))
	}
}

func TestNumbersAreNeverReused(t *testing.T) {
	def, err := os.ReadFile("../" + defPath)
	if err != nil {
		t.Fatal(err)
	}
	lists, err := parse(string(def))
	if err != nil {
		t.Fatal(err)
	}
	if len(lists) != len(numbered) {
		t.Errorf("%d lists, want %d", len(lists), len(numbered))
	}
	for _, l := range lists {
		var have []string
		for _, e := range l.entries {
			have = append(have, e.number+" "+e.name)
		}
		if got, want := strings.Join(have, ", "), numbered[l.macro]; got != want {
			t.Errorf("%s is\n%s\ninstead of\n%s\nWhat is new belongs into this test, too; nothing else may change.", l.macro, got, want)
		}
	}
}
