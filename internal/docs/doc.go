// Package docs has the tests that compare the documents with the sources: links, commands,
// settings, views, manual pages.
package docs
