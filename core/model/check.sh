#!/bin/sh
# core/model/check.sh BUILD: check each model with spin, and that each deliberate break of it is found.
#
# A line below is: ok or broken, the model, its flags.  What is broken must end in an assertion or in processes that
# wait for ever; a search that does not come to its end, or a model's own limit, is a failure in any case.
set -u
if ! command -v spin >/dev/null; then
	echo 'core/model/check.sh: no spin; install the package of that name' >&2
	exit 2
fi
cd "$(dirname "$0")" || exit
mkdir -p "$1"
build=$(cd "$1" && pwd)
here=$PWD
passed=0
failed=0

fail() {
	echo "FAILED: $1"
	failed=$((failed + 1))
}

check() { # check ok|broken MODEL FLAG...
	want=$1
	model=$2
	shift 2
	work=$build/$model$(printf '%s' "$*" | tr -d ' ')
	rm -rf "$work"
	mkdir -p "$work"
	cd "$work" || exit
	if ! spin -a "$@" "$here/$model.pml" >spin.log 2>&1 ||
		! "${CC:-cc}" -w -O1 -DSAFETY -DCOLLAPSE -DVECTORSZ=4096 -o pan pan.c >cc.log 2>&1; then
		cat spin.log cc.log 2>/dev/null
		fail "$model $*: does not compile"
		return
	fi
	./pan -m200000 -w22 >pan.log 2>&1
	states=$(awk '/states, stored/ { print $1 }' pan.log)
	if grep -qE 'last\+1|VECTORSZ|max search depth|out of memory|invalid array index' pan.log; then
		tail -n 40 pan.log
		fail "$model $*: a limit of the model"
	elif [ "$want" = ok ]; then
		if grep -q 'errors: 0$' pan.log && ! grep -q 'Search not completed' pan.log; then
			echo "ok: $model $*: $states states"
			passed=$((passed + 1))
		else
			tail -n 40 pan.log
			fail "$model $*"
		fi
	elif grep -qE '^pan:[0-9]+: (assertion violated|invalid end state)' pan.log; then
		echo "found: $model $*: $(sed -n 's/^pan:[0-9]*: \([a-z ]*\).*/\1/p' pan.log)"
		passed=$((passed + 1))
	else
		tail -n 40 pan.log
		fail "$model $*: the break is not found"
	fi
	rm -f pan pan.?
}

# each MODEL [FLAG]: the model with the flag is right, and each of its breaks that are given on standard input is found
each() {
	check ok "$@"
	while read -r break; do
		check broken "$@" "-DBREAK_$break" </dev/null
	done
}

# The breaks that a model's file has, but those that its other form looks for.
breaks() { grep -oE 'BREAK_[A-Z_]+' "$here/$1.pml" | sort -u | sed 's/^BREAK_//' | grep -vxE "${2:-}"; }

breaks ring none | each ring
breaks intent none | each intent
breaks wait none | each wait
echo NO_TIMEOUT | each wake
breaks wake NO_TIMEOUT | each wake -DWAITS
slot_dead='STAGED_ORDER|STAGED_FIRST|ACTIVE_ORDER|END_ORDER|END_FIRST|UNSTAGE_FENCE|NO_DONE'
breaks slot "$slot_dead" | each slot
echo "$slot_dead" | tr '|' '\n' | each slot -DDEATH

cd "$here" || exit
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
