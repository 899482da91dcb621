// Package report shows results: as text on a terminal (text.go), and as one page
// that needs no network (html.go, page.*), with charts that are drawn here
// (chart.go, bars.go, lines.go). Both find what tables and charts refer to in
// view.go and grid.go.
package report
