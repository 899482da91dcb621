#!/bin/sh
# core/test/run.sh BUILD: run the three flavours of the tests, and add up.
#
# The sanitizers make everything ten times slower or more, so long runs are
# shorter with them; STENO_TEST_* variables take precedence.

build=$1
log=$build/test.log
: >"$log"

run() {
	echo "# $1"
	shift
	"$@" 2>&1 | tee -a "$log"
}

export ASAN_OPTIONS="detect_leaks=1:${ASAN_OPTIONS}"
run plain "$build/plain/runner"
STENO_TEST_RING_RECORDS=${STENO_TEST_RING_RECORDS:-500000} \
	STENO_TEST_BLOCK_RECORDS=${STENO_TEST_BLOCK_RECORDS:-60000} \
	STENO_TEST_INFLIGHT_READS=${STENO_TEST_INFLIGHT_READS:-200000} \
	run "address and undefined-behaviour sanitizers" "$build/asan/runner"
STENO_TEST_RING_RECORDS=${STENO_TEST_RING_RECORDS:-300000} \
	STENO_TEST_INFLIGHT_READS=${STENO_TEST_INFLIGHT_READS:-1000} \
	run "thread sanitizer" "$build/tsan/runner" -t

# A flavour that did not print its count has failed as a whole.
awk '/^[0-9]+ passed, [0-9]+ failed$/ { passed += $1; failed += $3; n++ }
	END { failed += 3 - n; printf "%d passed, %d failed\n", passed, failed; exit failed > 0 }' "$log"
