// Package file is the sink that appends records to a file, which it can rotate, for agents that follow files.
package file

import (
	"context"
	"errors"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/pg-steno/pg_steno/internal/iostreams"
	"github.com/pg-steno/pg_steno/internal/ship"
)

// Options are the options of this sink.
type Options struct {
	RotateSize ship.Size `yaml:"rotate_size"` // rename the file to FILE.1 before it becomes larger; 0: never
	RotateKeep int       `yaml:"rotate_keep"` // how many renamed files to keep
}

// Kind is this kind of sinks.
var Kind = &ship.Kind{
	Name:    "file",
	Schemes: []string{"file"},
	Formats: ship.RecordFormats,
	Batch:   ship.Batch{Records: 50_000, Bytes: 8 << 20, Wait: ship.Duration(500 * time.Millisecond)},
	Options: func() any { return &Options{RotateKeep: 5} },
	Open:    open,
}

type sink struct {
	path    string
	options *Options
	file    *iostreams.RotatingFile
	buf     []byte
}

// open reads the path: file:/var/log/trail.json, file:///var/log/trail.json, or file:trail.json.
func open(c *ship.SinkConfig) (ship.Sink, error) {
	u, err := url.Parse(c.To)
	if err != nil {
		return nil, err
	}
	path := u.Path
	if u.Opaque != "" {
		path = u.Opaque
	}
	options := c.Options.(*Options)
	switch {
	case path == "" || strings.HasSuffix(path, "/"):
		return nil, errors.New("to: name a file, as in file:/var/log/steno/trail.json")
	case u.Host != "" && u.Host != "localhost":
		return nil, errors.New("to: a file is on this machine: use file:/path or file:///path")
	case options.RotateKeep < 1:
		return nil, errors.New("rotate_keep must be at least 1")
	case options.RotateSize != 0 && options.RotateSize < 1000:
		return nil, errors.New("rotate_size must be at least 1kB")
	}
	return &sink{path: filepath.FromSlash(path), options: options}, nil
}

// Check opens the file for writing, and removes it if it did not exist.
func (s *sink) Check(context.Context) []ship.Finding {
	_, before := os.Lstat(s.path)
	f, err := os.OpenFile(s.path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err == nil {
		f.Close()
		if before != nil {
			err = os.Remove(s.path)
		}
	}
	return []ship.Finding{{What: "open " + s.path + " for writing", Err: err}}
}

// SendEvents appends the events. They are on disk when it returns.
func (s *sink) SendEvents(_ context.Context, events []ship.Event) ([]ship.Refused, error) {
	if s.file == nil {
		f, err := iostreams.OpenRotatingFile(s.path, int64(s.options.RotateSize), s.options.RotateKeep, nil)
		if err != nil {
			return nil, err
		}
		s.file = f
	}
	for i := range events {
		s.buf = append(append(s.buf[:0], events[i].Line...), '\n')
		if _, err := s.file.Write(s.buf); err != nil {
			return nil, s.failed(err)
		}
	}
	if err := s.file.Sync(); err != nil {
		return nil, s.failed(err)
	}
	return nil, nil
}

// failed closes the file, so that the next attempt begins with what is in it.
func (s *sink) failed(err error) error {
	_ = s.Close()
	return err
}

// Close closes the file.
func (s *sink) Close() error {
	if s.file == nil {
		return nil
	}
	err := s.file.Close()
	s.file = nil
	return err
}
