#!/bin/sh
# core/model/check.sh BUILD [MODEL...]: check each model with spin, and that each deliberate break of it is found.
#
# Without MODELs all are checked.  A line below is: ok or broken, the model, its flags.  What is broken must end in an
# assertion or in processes that wait for ever; an incomplete search, or a limit of the model itself, is always a
# failure.
set -u
if ! command -v spin >/dev/null; then
	echo 'core/model/check.sh: no spin; install the package of that name' >&2
	exit 2
fi
mkdir -p "$1"
build=$(cd "$1" && pwd)
shift
cd "$(dirname "$0")" || exit
here=$PWD
passed=0
failed=0
for model in "$@"; do
	if [ ! -f "$model.pml" ] || [ "$model" = memory ]; then
		echo "core/model/check.sh: no model $model" >&2
		exit 2
	fi
done
models=${*:-all}

fail() {
	echo "FAILED: $1"
	failed=$((failed + 1))
}

check() { # check ok|broken MODEL FLAG...
	want=$1
	model=$2
	shift 2
	# most of the time of a break goes into compiling it
	[ "$want" = ok ] && optimize=-O1 || optimize=-O0
	work=$build/$model$(printf '%s' "$*" | tr -d ' ')
	rm -rf "$work"
	mkdir -p "$work"
	cd "$work" || exit
	if ! spin -a "$@" "$here/$model.pml" >spin.log 2>&1 ||
		! "${CC:-cc}" -w "$optimize" -DSAFETY -DCOLLAPSE -DVECTORSZ=4096 -o pan pan.c >cc.log 2>&1; then
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
			echo "ok: $model $*: $states states, $(sed -n 's/^pan: elapsed time \([0-9.]*\).*/\1/p' pan.log) s"
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

# each BREAKS MODEL [FLAG]: the model with the flag is right, and each of the breaks is found
each() {
	breaks=$1
	shift
	case " $models " in
	*" all "* | *" $1 "*) ;;
	*) return ;;
	esac
	check ok "$@"
	for break in $breaks; do
		check broken "$@" "-DBREAK_$break"
	done
}

# The breaks in a model's file, except those that its other form looks for.
breaks_of() {
	grep -oE 'BREAK_[A-Z_]+' "$here/$1.pml" | sort -u | sed 's/^BREAK_//' |
		grep -vxE "$(echo "${2:-}" | tr ' ' '|')"
}

inflight_dead='STAGED_ORDER STAGED_FIRST ACTIVE_ORDER END_ORDER END_FIRST UNSTAGE_FENCE NO_DONE'
template_dead=UNSTAGE_FENCE
intent_drops='NOT_SAYING SAID_LATE SAID_FORGOTTEN'

each "$(breaks_of statement)" statement
each "$(breaks_of ring)" ring
each "$(breaks_of reserve)" reserve
each "$(breaks_of chunk)" chunk
each "$(breaks_of intent "$intent_drops")" intent
each "$intent_drops" intent -DDROPS
each WAKE_ONE wait
each "$(breaks_of wait WAKE_ONE)" wait -DROUNDS
each NO_TIMEOUT wake
each "$(breaks_of wake NO_TIMEOUT)" wake -DWAITS
each "$(breaks_of inflight "$inflight_dead")" inflight
each "$inflight_dead" inflight -DDEATH
each "$(breaks_of template "$template_dead")" template
each "ANY_TIME DEFINE_ORDER PUBLISH_ORDER SESSION STAGED_FORGOTTEN $template_dead" template -DDEATH

cd "$here" || exit
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
