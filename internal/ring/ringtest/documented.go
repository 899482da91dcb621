// The layout of ring files, from the tables of format/RING.md.

package ringtest

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
)

// Documentation is what the tables of format/RING.md say.
type Documentation struct {
	First, Last uint32                                  // versions, of the title
	Sizes       map[string]int                          // of structures, in the last version
	Fields      map[uint32]map[string]map[string][2]int // offset and size, by version, structure and name
	Unknown     []string                                // fields since a version of which the title says nothing
}

// Documented reads format/RING.md of the sources in which the test runs.
var Documented = sync.OnceValue(func() *Documentation {
	data, err := os.ReadFile(filepath.Join(root(), "format", "RING.md"))
	if err != nil {
		panic(err)
	}
	heading := regexp.MustCompile(`^#+ (Steno\w+): (\d+) bytes`)
	row := regexp.MustCompile(`^\| (\d+) \| (\d+) \| (\w+) \| (\d+) \|`)
	title := regexp.MustCompile(`^# The ring file, versions (\d+) to (\d+)$`)
	number := func(s string) int { n, _ := strconv.Atoi(s); return n }
	d := &Documentation{Sizes: map[string]int{}, Fields: map[uint32]map[string]map[string][2]int{}}
	structure := ""
	for line := range strings.Lines(string(data)) {
		line = strings.TrimSuffix(line, "\n")
		if m := title.FindStringSubmatch(line); m != nil {
			d.First, d.Last = uint32(number(m[1])), uint32(number(m[2]))
			for v := d.First; v <= d.Last; v++ {
				d.Fields[v] = map[string]map[string][2]int{}
			}
		}
		if m := heading.FindStringSubmatch(line); m != nil {
			structure = m[1]
			d.Sizes[structure] = number(m[2])
			for _, structures := range d.Fields {
				structures[structure] = map[string][2]int{}
			}
		}
		if m := row.FindStringSubmatch(line); m != nil {
			since := uint32(number(m[4]))
			if since < d.First || since > d.Last {
				d.Unknown = append(d.Unknown, structure+"."+m[3])
			}
			// the rows of a field stand in the order of their versions
			for v := max(since, d.First); v <= d.Last; v++ {
				d.Fields[v][structure][m[3]] = [2]int{number(m[1]), number(m[2])}
			}
		}
	}
	return d
})

// root is the folder of the sources, above that of the package that is tested.
func root() string {
	for folder := "."; ; folder = filepath.Join(folder, "..") {
		if _, err := os.Stat(filepath.Join(folder, "go.mod")); err == nil {
			return folder
		}
		if path, err := filepath.Abs(folder); err != nil || path == filepath.Dir(path) {
			panic("no go.mod above the test")
		}
	}
}

// structures are those of one version.
type structures map[string]map[string][2]int

func layoutOf(version uint32) structures { return Documented().Fields[version] }

// of is a field of the structure at b.
func (s structures) of(b []byte, structure, name string) []byte {
	f := s[structure][name]
	return b[f[0] : f[0]+f[1]]
}

// put sets a field of the structure at b, unless the version does not have it.
func (s structures) put(b []byte, structure, name string, v any) {
	if _, ok := s[structure][name]; !ok {
		return
	}
	field := s.of(b, structure, name)
	switch v := v.(type) {
	case uint16:
		binary.LittleEndian.PutUint16(field, v)
	case int:
		at(field, 0, uint64(v))
	case string:
		copy(field, v)
	case []byte:
		copy(field, v)
	default:
		at(field, 0, v)
	}
}
