// Package docs has the documents that the programs quote.
package docs

import _ "embed"

// Compliance is compliance.md.
//
//go:embed compliance.md
var Compliance string
