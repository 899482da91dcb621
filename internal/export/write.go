// One file of an export, in each format.

package export

import (
	"bufio"
	"context"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/pg-steno/pg_steno/internal/format"
	"github.com/pg-steno/pg_steno/internal/query"
	"github.com/pg-steno/pg_steno/internal/render"
	"github.com/pg-steno/pg_steno/internal/sql"
	"github.com/pg-steno/pg_steno/internal/trail"
)

// write writes the records of a range of times to a new file.
func (r *run) write(ctx context.Context, path string, since, until int64) (rows sql.Rows, err error) {
	switch r.Format {
	case "csv":
		return r.lines(ctx, path, render.CSV, since, until)
	case "jsonl":
		return r.lines(ctx, path, render.JSON, since, until)
	}
	if r.db == nil {
		spill := ""
		if r.Format == "duckdb" { // a group of 122,880 rows is in memory until it is complete
			spill = filepath.Join(filepath.Dir(path), "spill")
		}
		r.db, err = sql.Open(sql.Options{
			Index: func() (*trail.Index, error) { return r.index, nil },
			Since: format.MinTime, Until: format.MaxTime, Filter: r.filter, Blocks: blocksOf(r.plan.Streams),
			AllowFiles: true, // all statements are the program's own
			MaxThreads: 4,    // each has records in memory
			Warn:       r.warn, MemoryLimit: r.Memory, TempDirectory: spill, Location: time.UTC,
		})
		if err != nil {
			return rows, err
		}
	}
	if r.Format == "duckdb" {
		if rows, err = r.db.ExportDatabase(ctx, path, since, until); err == nil {
			err = os.Chmod(path, 0o600)
		}
		return rows, err
	}
	return r.db.ExportParquet(ctx, path, r.Compression, since, until)
}

// lines writes the lines that "steno cat" shows.
func (r *run) lines(
	ctx context.Context, path string, format render.Format, since, until int64,
) (rows sql.Rows, err error) {
	to, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return rows, err
	}
	defer to.Close()
	options := render.Options{CSVUnsafe: !r.CSVSafe, Servers: r.servers()}
	out := bufio.NewWriterSize(to, 256<<10)
	out.Write(render.Header(format, options))
	var mu sync.Mutex
	var all []*formatter
	var hidden query.Hidden
	err = r.index.Merge(ctx, trail.MergeOptions{
		Since: since, Until: until, Blocks: blocksOf(r.plan.Streams), Contents: r.filter.Contents(),
		Rollbacks: true, Warn: r.warn,
		NewFormatter: func() trail.Formatter {
			mu.Lock()
			defer mu.Unlock()
			all = append(all, &formatter{
				Renderer: render.New(format, options),
				Matcher:  query.Matcher{Filter: r.filter},
				hidden:   &hidden,
			})
			return all[len(all)-1]
		},
	}, func(line []byte) error {
		_, err := out.Write(line)
		return err
	})
	for _, f := range all {
		rows.Merge(&f.rows)
	}
	hidden.DropEnded(ctx, r.index)
	for _, lacks := range hidden.Errs() {
		r.warn(lacks)
	}
	if err == nil {
		err = out.Flush()
	}
	return rows, err
}

// formatter is a trail.Formatter that also counts records.
type formatter struct {
	render.Renderer
	query.Matcher
	hidden *query.Hidden
	rows   sql.Rows
}

func (f *formatter) Keep(rec *format.Record) bool {
	f.hidden.Note(&f.Matcher, rec)
	return f.Matcher.Keep(rec)
}

func (f *formatter) MayKeep(rec *format.Record) bool {
	return f.Matcher.MayKeep(rec) || f.MayRename(rec)
}

func (f *formatter) Start(ref *trail.BlockRef) {
	f.Renderer.Start(ref)
	f.Matcher.Reset()
}

func (f *formatter) Append(dst []byte, rec *format.Record) []byte {
	f.rows.Add(rec)
	return f.Renderer.Append(dst, rec)
}
