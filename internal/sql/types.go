// The types of columns.

package sql

import (
	"fmt"
	"strings"

	duckdb "github.com/duckdb/duckdb-go-bindings"
)

// Type is the type of a column.
type Type struct {
	id      duckdb.Type
	name    string
	Element *Type   // of a list
	Fields  []Field // of a struct
	isMap   bool
	names   []string // the values of an ENUM
}

// Field is a field of a struct.
type Field struct {
	Name string
	Type *Type
}

var (
	typeBoolean     = &Type{id: duckdb.TypeBoolean, name: "BOOLEAN"}
	typeBigint      = &Type{id: duckdb.TypeBigInt, name: "BIGINT"}
	typeVarchar     = &Type{id: duckdb.TypeVarchar, name: "VARCHAR"}
	typeTimestamptz = &Type{id: duckdb.TypeTimestampTZ, name: "TIMESTAMPTZ"}
	typeInterval    = &Type{id: duckdb.TypeInterval, name: "INTERVAL"}
	typeNames       = listOf(typeVarchar)
)

func listOf(t *Type) *Type { return &Type{id: duckdb.TypeList, Element: t} }

func structOf(fields ...Field) *Type { return &Type{id: duckdb.TypeStruct, Fields: fields} }

// mapOf is a map of strings: a list of keys and values.
func mapOf() *Type {
	return &Type{
		id:      duckdb.TypeMap,
		isMap:   true,
		Element: structOf(Field{"key", typeVarchar}, Field{"value", typeVarchar}),
	}
}

// enumOf returns a type of strings that are all known in advance.
func enumOf(names []string) *Type {
	return &Type{id: duckdb.TypeEnum, name: "VARCHAR", names: names}
}

// String returns the type as SQL writes it.
func (t *Type) String() string {
	switch {
	case t.isMap:
		return "MAP(VARCHAR, VARCHAR)"
	case t.Element != nil:
		return t.Element.String() + "[]"
	case t.Fields != nil:
		var fields []string
		for _, f := range t.Fields {
			fields = append(fields, fmt.Sprintf("%s %s", quoteReserved(f.Name), f.Type))
		}
		return "STRUCT(" + strings.Join(fields, ", ") + ")"
	}
	return t.name
}

// quoteReserved quotes a field's name if DuckDB does.
func quoteReserved(name string) string {
	if name == "to" {
		return `"to"`
	}
	return name
}

// logical returns the type for DuckDB. The caller must destroy it.
func (t *Type) logical() duckdb.LogicalType {
	switch {
	case t.isMap:
		key, value := typeVarchar.logical(), typeVarchar.logical()
		defer duckdb.DestroyLogicalType(&key)
		defer duckdb.DestroyLogicalType(&value)
		return duckdb.CreateMapType(key, value)
	case t.Element != nil:
		element := t.Element.logical()
		defer duckdb.DestroyLogicalType(&element)
		return duckdb.CreateListType(element)
	case t.names != nil:
		return duckdb.CreateEnumType(t.names)
	case t.Fields != nil:
		types, names := make([]duckdb.LogicalType, len(t.Fields)), make([]string, len(t.Fields))
		for i, f := range t.Fields {
			types[i], names[i] = f.Type.logical(), f.Name
			defer duckdb.DestroyLogicalType(&types[i])
		}
		return duckdb.CreateStructType(types, names)
	}
	return duckdb.CreateLogicalType(t.id)
}
