package main

import (
	"os"
	"testing"
)

func TestGeneratedFilesMatchDefinition(t *testing.T) {
	t.Chdir("..")
	def, err := os.ReadFile(defPath)
	if err != nil {
		t.Fatal(err)
	}
	lists, err := parse(string(def))
	if err != nil {
		t.Fatal(err)
	}
	code, err := constants(lists)
	if err != nil {
		t.Fatal(err)
	}
	have, err := os.ReadFile(goPath)
	if err != nil {
		t.Fatal(err)
	}
	if string(have) != string(code) {
		t.Errorf("%s differs from %s: run go generate ./internal/trail", goPath, defPath)
	}
	page, err := os.ReadFile(docsPath)
	if err != nil {
		t.Fatal(err)
	}
	want, err := tables(string(page), lists)
	if err != nil {
		t.Fatal(err)
	}
	if string(page) != want {
		t.Errorf("%s differs from %s: run go generate ./internal/trail", docsPath, defPath)
	}
}
