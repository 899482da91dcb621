// Two further sources about a round: the server's own log, and pg_stat_statements.

package protocol

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/pg-steno/pg_steno/lab/cluster"
	"github.com/pg-steno/pg_steno/lab/regress"
)

func (r *round) logs() string { return r.dataDir() + "-log" }

// logging returns the settings of a server's log, which is short if it is not compared.
func (r *round) logging() []cluster.Setting {
	if !r.truths {
		return []cluster.Setting{{Name: "log_min_error_statement", Value: "panic"}}
	}
	return []cluster.Setting{
		{Name: "shared_preload_libraries", Value: "pg_stat_statements, pg_steno"},
		{Name: "compute_query_id", Value: "on"},
		{Name: "pg_stat_statements.track", Value: "all"},
		{Name: "pg_stat_statements.track_planning", Value: "on"},
		{Name: "pg_stat_statements.max", Value: "50000"},
		{Name: "logging_collector", Value: "on"},
		{Name: "log_destination", Value: "csvlog"},
		{Name: "log_directory", Value: r.logs()},
		{Name: "log_filename", Value: "server.log"},
		{Name: "log_rotation_age", Value: "0"},
		{Name: "log_rotation_size", Value: "0"},
		{Name: "log_statement", Value: "all"},
		{Name: "log_min_duration_statement", Value: "0"},
		{Name: "log_min_error_statement", Value: "error"},
	}
}

// readStatistics reads what the server has counted.
func (r *round) readStatistics(ctx context.Context) {
	if !r.truths {
		return
	}
	lines, err := r.server.Psql(ctx, "CREATE EXTENSION IF NOT EXISTS pg_stat_statements; SHOW server_version_num;"+
		regress.StatisticsQuery)
	if err == nil {
		version, rest, _ := strings.Cut(lines, "\n")
		var err1, err2 error
		r.version, err1 = strconv.Atoi(version)
		r.counted, err2 = regress.ReadStatistics(strings.NewReader(rest))
		err = errors.Join(err1, err2)
	}
	if err != nil && ctx.Err() == nil {
		r.complain("server", nil, "%s", err)
	}
}

// messages looks at the messages of the server's log.
func (r *round) messages() {
	log, err := os.Open(filepath.Join(r.logs(), "server.csv"))
	if err == nil {
		defer log.Close()
		err = regress.Messages(log, func(pid uint32, message string) { r.message(r.ofProcess(pid), message) })
	}
	if err != nil {
		r.complain("server", nil, "%s", err)
	}
}

// compare compares the trail with the server's log and its statistics.
func (r *round) compare(ctx context.Context) {
	if !r.truths {
		return
	}
	log, err := os.Open(filepath.Join(r.logs(), "server.csv"))
	if err != nil {
		r.complain("server", nil, "%s", err)
		return
	}
	defer log.Close()
	trail, err1 := r.steno(ctx, "cat", "--format", "json").Output()
	var differences bytes.Buffer
	report, err2 := regress.Compare([]io.Reader{log}, bytes.NewReader(trail), &differences)
	if err := errors.Join(err1, err2); err != nil {
		r.complain("server", nil, "%s", err)
		return
	}
	for line := range strings.Lines(differences.String()) {
		r.complain("log", nil, "%s", strings.TrimSpace(line))
	}
	differences.Reset()
	report.Aborts = true
	report.CompareStatistics(r.counted, r.version)
	for line := range strings.Lines(differences.String()) {
		r.complain("statistics", nil, "%s", strings.TrimSpace(line))
	}
}
