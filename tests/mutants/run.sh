#!/bin/bash
# Seeded faults in passes and decompositions must be caught. Each line of list.txt changes one source file; that file alone
# is compiled, the tests that answer for it and the fuzzer are relinked with its object before the library, and run. Prints `caught N of M` and the survivors.
#   usage: tests/mutants/run.sh [BUILD_FOLDER] [SEEDS] [FIRST_LINE] [LAST_LINE]     (default: build/release, 150 seeds; 0 = no fuzzing)
set -u
top=$(cd "$(dirname "$0")/../.." && pwd)
build=${1:-$top/build/release} seeds=${2:-150} first=${3:-1} last=${4:-100000}
cd "$top" || exit 2
work=$(mktemp -d) || exit 2
trap 'rm -rf "$work"' EXIT
flags=(-D_GNU_SOURCE -I"$top" -I"$top/include" -O1 -std=c17 -fPIE -ffp-contract=off -w)
objects() { find "$build/$1" -name '*.o'; }
libraries=$(ninja -C "$build" -t commands weft-command | tail -1 | sed 's/.* libweft\.a//' | grep -oE '(/[^ ]+\.(so|a)[^ ]*|-l[^ ]+)')
link() { # link OUT OBJECTS...: the mutant first, so that it wins over the library's member
  local out=$1; shift
  cc -o "$work/$out" "$work/mutant.o" "$@" "$build/libweft.a" $libraries -lpthread $(pkg-config --libs check) -ldl -lm 2> "$work/link.log" || { cat "$work/link.log"; exit 2; }
}
export WEFT_CACHE=$work/cache
caught=0 total=0
while IFS='|' read -r file expression; do
  case $file in ''|'#'*) continue ;; esac
  number=$((${number:-0} + 1))
  [ "$number" -lt "$first" ] || [ "$number" -gt "$last" ] && continue
  total=$((total + 1))
  sed -e "$expression" "$file" > "$work/mutant.c"
  if cmp -s "$file" "$work/mutant.c"; then echo "list.txt: no effect: $file|$expression"; exit 2; fi
  if ! cc "${flags[@]}" -I"$(dirname "$file")" -c "$work/mutant.c" -o "$work/mutant.o" 2> "$work/compile.log"; then
    echo "list.txt: does not compile: $file|$expression"; head -3 "$work/compile.log"; exit 2
  fi
  by= outcome=0
  case $file in
    passes/diff/*) tests="diff passes" ;;
    compile/*) tests="compile" ;;
    base/*|ir/guard.c) tests="dim ir passes compile" ;;
    ir/*) tests="passes ir interp" ;;
    *) tests="passes interp" ;;
  esac
  for test in $tests; do
    [ -z "$by" ] || break
    link test-$test $(objects tests/CMakeFiles/test-$test.dir) "$build/tests/libweft-sample.a"
    suite= # of test-compile the graphs alone: the loops over failing allocations take minutes
    [ "$test" != compile ] || suite=samples
    timeout 120 env ${suite:+CK_RUN_SUITE=$suite} "$work/test-$test" > /dev/null 2>&1 || by=$test outcome=$?
  done
  if [ -z "$by" ] && [ "$seeds" -gt 0 ]; then
    link weft $(objects cli/CMakeFiles/weft-command.dir)
    timeout 300 "$work/weft" fuzz --count "$seeds" --seed 1 > /dev/null 2>&1 || by=fuzz outcome=$?
  fi
  if [ "$outcome" -eq 124 ]; then echo "TIMEOUT in $by, not counted: $file|$expression"
  elif [ -n "$by" ]; then caught=$((caught + 1)); echo "caught by $by: $file|$expression"
  else echo "SURVIVED: $file|$expression"; fi
done < "$top/tests/mutants/list.txt"
echo "caught $caught of $total"
