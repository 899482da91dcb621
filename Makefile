# pg_steno: the extension (extension/, on core/), steno, the program that reads what it records, steno-query, which
# answers questions about it in SQL, steno-top, which shows it on a terminal, steno-ship, which takes it elsewhere, and
# steno-lab, which measures what recording costs.
#
#	PG_CONFIG	the PostgreSQL to build for (scripts/pg-config says which by default)
#	V=1		show every command
#	PREFIX		where `make install` puts the programs (DESTDIR is honoured)

.DEFAULT_GOAL := help
PREFIX ?= /usr/local
CHOSEN := $(if $(PG_CONFIG),chosen)
PG_CONFIG ?= $(shell scripts/pg-config)
# Empty in a source archive.
COMMIT := $(shell git describe --tags --always --dirty 2>/dev/null)
GO ?= go
export GO

# V=1 shows every command of the build.
QUIET := $(if $(filter 1,$(V)),,-s)

# What each purpose needs (scripts/setup --PURPOSE).  A passed check holds until the list of needs changes.
setup = $(patsubst %,build/setup-%.stamp,$(1))

.PHONY: help
help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-13s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: demo
demo: $(call setup,demo) build ## record real traffic on a throw-away server and read it back
	@scripts/with-stage bin/steno-lab demo $(DEMO_FLAGS)

.PHONY: test
test: $(call setup,test lint) ## every test: build, lint, core, Go, extension, chaos, README; ONLY='NAME...' of them
	@scripts/test $(ONLY)

.PHONY: test-versions
test-versions: ## the suites on VERSIONS of PostgreSQL (all that are supported), each in a Debian root; needs root
	@scripts/test-versions $(VERSIONS)

.PHONY: test-drivers
test-drivers: $(call setup,test drivers) ## real clients with many drivers: log and statistics of the server against the trail
	@scripts/test-drivers $(DRIVERS_FLAGS)

.PHONY: test-upgrade
test-upgrade: ## pg_upgrade from 15 to 17 and from 17 to 18, in Debian roots that have both; needs root
	@scripts/test-upgrade

.PHONY: chaos
chaos: $(call setup,demo) build ## random load meets faults, then random protocol, CHAOS_MINUTES each; CHAOS_SEED repeats
	@scripts/chaos $(CHAOS_FLAGS)
	@scripts/chaos protocol $(PROTOCOL_FLAGS)

.PHONY: regress
regress: bin/steno bin/steno-lab ## PostgreSQL's own suite, its log compared with the trail; SOURCE=folder of its source
	@scripts/regress-postgres "$(SOURCE)"

.PHONY: build
build: build-core build-extension bin/steno bin/steno-query bin/steno-top bin/steno-ship bin/steno-lab bin/steno-ipc ## core, the extension, and the programs in bin

.PHONY: build-core build-extension bin/steno bin/steno-query bin/steno-top bin/steno-ship bin/steno-lab bin/steno-ipc
build-core: $(call setup,build)
	@echo 'building core'
	@$(MAKE) $(QUIET) -C core --no-print-directory all

build-extension: build-core
	@echo "building the extension for $$(scripts/pg-config --describe '$(PG_CONFIG)' $(CHOSEN))"
	@$(MAKE) $(QUIET) -C extension --no-print-directory all PG_CONFIG=$(PG_CONFIG)

bin/steno-ipc: $(call setup,build)
	@echo 'building $@'
	@$(MAKE) $(QUIET) -C lab --no-print-directory

# DuckDB is C++, which only steno-query links.
bin/steno-query: CGO = 1
bin/steno bin/steno-query bin/steno-top bin/steno-ship bin/steno-lab: $(call setup,build)
	@echo 'building $@'
	@CGO_ENABLED=$(or $(CGO),0) $(GO) build -trimpath -ldflags '-s -w -X github.com/pg-steno/pg_steno/internal/command/program.Commit=$(COMMIT)' -o $@ ./cmd/$(@F)

.PHONY: install
install: ## the extension into PG_CONFIG's PostgreSQL, the programs into PREFIX/bin
	@$(MAKE) -C extension --no-print-directory install PG_CONFIG=$(PG_CONFIG) DESTDIR=$(DESTDIR)
	install -d $(DESTDIR)$(PREFIX)/bin
	install -m 755 bin/steno bin/steno-query bin/steno-top bin/steno-ship bin/steno-lab bin/steno-ipc $(DESTDIR)$(PREFIX)/bin

.PHONY: uninstall
uninstall: ## what install has put there; trails stay
	@$(MAKE) -C extension --no-print-directory uninstall PG_CONFIG=$(PG_CONFIG) DESTDIR=$(DESTDIR)
	rm -f $(addprefix $(DESTDIR)$(PREFIX)/bin/,steno steno-query steno-top steno-ship steno-lab steno-ipc)
	@echo 'Before a server starts again, remove pg_steno from its shared_preload_libraries. Its trail stays where it is.'

.PHONY: packages
packages: ## Debian packages in build/packages, each made in a clean root; needs root
	@scripts/packages $(VERSIONS)

.PHONY: test-packages
test-packages: ## install, upgrade and remove these in fresh roots; needs root
	@scripts/test-packages $(VERSIONS)

.PHONY: release
release: ## source archive, packages, SBOM and checksums in build/release; STENO_SIGNING_KEY signs; needs root
	@scripts/release

.PHONY: bench
bench: $(call setup,bench) build ## measure what recording costs here; results in bench/results
	@scripts/bench $(BENCH_FLAGS)

.PHONY: lint
lint: $(call setup,lint) build-extension ## form of C, Go and shell sources, and which files may use which
	@scripts/lint

.PHONY: format
format: $(call setup,lint) ## C and Go sources in their style
	@scripts/indent
	@gofmt -l -w cmd internal lab

.PHONY: fuzz
fuzz: $(call setup,test) ## the decoders of core and Go against random input, FUZZ_SECONDS each
	@$(MAKE) -C core --no-print-directory fuzz
	@grep -roE --include='*_test.go' '^func Fuzz[A-Za-z0-9_]*' internal lab | while IFS=: read -r file target; do \
	  $(GO) test "./$${file%/*}" -run '^$$' -fuzz "^$${target#func }\$$" -fuzztime $(or $(FUZZ_SECONDS),30)s || exit; \
	done

.PHONY: model
model: ## check the models of ring, wake-ups and recovery (needs spin)
	@$(MAKE) -C core --no-print-directory model

.PHONY: valgrind
valgrind: bin/steno build-extension ## servers under valgrind; SOURCE=folder of PostgreSQL's source
	@scripts/valgrind "$(SOURCE)"

.PHONY: clean
clean: ## what the build and the tests made
	@$(MAKE) -C core --no-print-directory clean
	@$(MAKE) -C lab --no-print-directory clean
	-@$(MAKE) -C extension --no-print-directory clean PG_CONFIG=$(PG_CONFIG)
	rm -rf bin build

build/setup-%.stamp: scripts/setup
	@scripts/setup --$*
	@mkdir -p $(@D) && touch $@
