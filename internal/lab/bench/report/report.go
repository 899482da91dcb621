// Package report shows results: as text on a terminal (text.go), and as one page
// that needs no network (html.go, page.*), with charts that are drawn here
// (chart.go, bars.go, lines.go). Both find what tables and charts refer to in
// view.go and grid.go.
//
// Libraries that draw charts make pictures, or pages with scripts of theirs; these charts
// are inline SVG that takes the page's colours and fonts, with intervals and published
// figures in them. Those that set tables know no columns of figures with intervals, and do
// not break a table that is too wide into several.
package report
