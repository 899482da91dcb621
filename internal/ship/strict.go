// Decoding YAML strictly: each key must be known, and an error says where it is and what is near.

package ship

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/pg-steno/pg_steno/internal/query"
)

// decoder decodes a configuration file. The options of a sink depend on the scheme of its URL.
type decoder struct{ kinds []*Kind }

// decode decodes a mapping into one or more structs, each of which has some of the keys.
func (d *decoder) decode(node *yaml.Node, path string, into ...any) error {
	if node.Kind == yaml.AliasNode {
		node = node.Alias
	}
	if node.Kind != yaml.MappingNode {
		return at(node, path, errors.New("here must be keys with values"))
	}
	fields := map[string]reflect.Value{}
	for _, one := range into {
		addFields(fields, reflect.ValueOf(one).Elem())
	}
	seen := map[string]bool{}
	for i := 0; i+1 < len(node.Content); i += 2 {
		key, value := node.Content[i], node.Content[i+1]
		name := key.Value
		inside := join(path, name)
		field, known := fields[name]
		if !known {
			var names []string
			for name := range fields {
				names = append(names, name)
			}
			return at(key, "", unknown(inside, name, names))
		}
		if seen[name] {
			return at(key, inside, errors.New("it is there twice"))
		}
		seen[name] = true
		if err := d.value(value, inside, field); err != nil {
			return err
		}
	}
	return nil
}

// addFields adds the fields of a struct that have keys, and those of structs that are embedded in it.
func addFields(fields map[string]reflect.Value, v reflect.Value) {
	for i := range v.NumField() {
		field := v.Type().Field(i)
		if name, _, _ := strings.Cut(field.Tag.Get("yaml"), ","); name != "" && name != "-" {
			fields[name] = v.Field(i)
		} else if field.Anonymous && field.Type.Kind() == reflect.Struct {
			addFields(fields, v.Field(i))
		}
	}
}

// value decodes the value of a key.
func (d *decoder) value(node *yaml.Node, path string, field reflect.Value) error {
	if field.Type() == reflect.TypeFor[map[string]*SinkConfig]() {
		return d.sinks(node, path, field.Addr().Interface().(*map[string]*SinkConfig))
	}
	_, decodesItself := field.Addr().Interface().(yaml.Unmarshaler)
	if field.Kind() == reflect.Struct && !decodesItself {
		return d.decode(node, path, field.Addr().Interface())
	}
	if node.Kind == yaml.ScalarNode && node.Tag == "!!null" {
		return at(node, path, errors.New("it has no value"))
	}
	// one value may stand for a list of one
	if field.Kind() == reflect.Slice && node.Kind == yaml.ScalarNode && field.Type().Elem().Kind() == reflect.String {
		field.Set(reflect.ValueOf([]string{node.Value}))
		return nil
	}
	if field.Type() == reflect.TypeFor[map[string][]string]() {
		return d.lists(node, path, field.Addr().Interface().(*map[string][]string))
	}
	if err := node.Decode(field.Addr().Interface()); err != nil {
		return at(node, path, plain(err))
	}
	return nil
}

// lists decodes keys that each have one value, or a list of values.
func (d *decoder) lists(node *yaml.Node, path string, to *map[string][]string) error {
	if node.Kind != yaml.MappingNode {
		return at(node, path, errors.New("here must be keys with values"))
	}
	*to = map[string][]string{}
	for i := 0; i+1 < len(node.Content); i += 2 {
		var values []string
		name := node.Content[i].Value
		if err := d.value(node.Content[i+1], join(path, name), reflect.ValueOf(&values).Elem()); err != nil {
			return err
		}
		(*to)[name] = values
	}
	return nil
}

// sinks decodes the sinks, whose keys depend on their kind.
func (d *decoder) sinks(node *yaml.Node, path string, to *map[string]*SinkConfig) error {
	if node.Kind != yaml.MappingNode {
		return at(node, path, errors.New("here must be the names of sinks, each with its keys"))
	}
	*to = map[string]*SinkConfig{}
	for i := 0; i+1 < len(node.Content); i += 2 {
		name, value := node.Content[i].Value, node.Content[i+1]
		inside := join(path, name)
		if (*to)[name] != nil {
			return at(node.Content[i], inside, errors.New("it is there twice"))
		}
		if value.Kind != yaml.MappingNode {
			return at(value, inside, errors.New("here must be keys with values, such as to"))
		}
		url := ""
		for k := 0; k+1 < len(value.Content); k += 2 {
			if value.Content[k].Value == "to" {
				url = value.Content[k+1].Value
			}
		}
		if url == "" {
			return at(value, inside, errors.New("to is missing: the URL of the destination"))
		}
		s, err := newSink(name, url, d.kinds)
		if err != nil {
			return at(value, join(inside, "to"), err)
		}
		if err := d.decode(value, inside, s, s.Options); err != nil {
			return err
		}
		(*to)[name] = s
	}
	return nil
}

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

// at adds the line and the path of a value to an error.
func at(node *yaml.Node, path string, err error) error {
	if path != "" {
		err = fmt.Errorf("%s: %w", path, err)
	}
	return fmt.Errorf("line %d: %w", node.Line, err)
}

// plain removes from an error of the YAML library what its users cannot know.
func plain(err error) error {
	text := strings.TrimPrefix(err.Error(), "yaml: ")
	text = strings.TrimPrefix(text, "unmarshal errors:\n")
	text = strings.TrimSpace(text)
	if _, rest, ok := strings.Cut(text, ": cannot unmarshal "); ok {
		_, value, _ := strings.Cut(rest, " ")
		value, _, _ = strings.Cut(value, " into ")
		return fmt.Errorf("%s is not a value of the right type", value)
	}
	return errors.New(text)
}

// unknown is the error for a key that does not exist.
func unknown(path, name string, names []string) error {
	slices.Sort(names)
	if near := query.Nearest(name, names); near != "" {
		return fmt.Errorf("%s: there is no such key; nearest: %s", path, near)
	}
	return fmt.Errorf("%s: there is no such key: use %s", path, strings.Join(names, ", "))
}
