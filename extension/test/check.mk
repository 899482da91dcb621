# make check: the tests, on throw-away servers of an installation that has the extension.
#
#	PG_CONFIG	of that installation
#	STENO		the steno program
#	PROVE_TESTS	TAP tests to run, and nothing else; by default all, with the regression tests
#	PROVE_FLAGS	for prove, such as --verbose

STENO ?= $(abspath ../bin/steno)
PROVE ?= prove
PROVE_TESTS ?= t/*.pl
BINDIR := $(shell $(PG_CONFIG) --bindir)
TOOLS := $(abspath $(dir $(PGXS))/../test)

REGRESS = settings functions extension record_nothing_breaks
ISOLATION = requests_together

# Tests that were asked for by name run alone.
PARTS = $(if $(filter command,$(origin PROVE_TESTS)),,regress isolation) tap

# --no-locale: messages are compared.
REGRESS_FLAGS = --bindir=$(BINDIR) --inputdir=test --temp-config=tmp_check/steno.conf --no-locale

# Ring files go with the test, whatever becomes of its server.
define with_rings
mkdir -p tmp_check; \
rings=$$(mktemp -d $(or $(wildcard /dev/shm),/tmp)/steno_rings.XXXXXX) || exit; \
trap 'rm -rf "$$rings"' EXIT; \
trap 'exit 1' INT TERM; \
printf '%s\n' "shared_preload_libraries = 'pg_steno'" 'max_connections = 30' 'max_prepared_transactions = 2' \
	"steno.ring_directory = '$$rings'" >tmp_check/steno.conf;
endef

.PHONY: check check-regress check-isolation check-tap
check:
	@result=0; \
	for part in $(PARTS); do \
		$(MAKE) --no-print-directory check-$$part || result=1; \
	done; \
	exit $$result

check-regress:
	@rm -rf tmp_check/regress
	@$(with_rings) \
	$(TOOLS)/regress/pg_regress $(REGRESS_FLAGS) --temp-instance=tmp_check/regress $(REGRESS)

check-isolation:
	@rm -rf tmp_check/isolation output_iso
	@mkdir -p output_iso
	@$(with_rings) \
	$(TOOLS)/isolation/pg_isolation_regress $(REGRESS_FLAGS) --outputdir=output_iso \
		--temp-instance=tmp_check/isolation $(ISOLATION)

# PostgreSQL::Test keeps its servers and logs in tmp_check; 15 asks for TESTDIR, newer ones for the others.
check-tap:
	@rm -rf tmp_check
	@mkdir -p tmp_check
	@PATH='$(BINDIR):$(PATH)' PG_REGRESS='$(TOOLS)/regress/pg_regress' STENO='$(STENO)' \
	TESTDIR='$(CURDIR)' TESTDATADIR='$(CURDIR)/tmp_check' TESTLOGDIR='$(CURDIR)/tmp_check/log' PGPORT=65432 TZ=UTC \
	$(PROVE) -I $(TOOLS)/perl -I t $(PROVE_FLAGS) $(PROVE_TESTS)
