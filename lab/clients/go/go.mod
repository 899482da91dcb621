module github.com/pg-steno/pg_steno/lab/clients/go

go 1.26.0

require github.com/lib/pq v1.12.3
