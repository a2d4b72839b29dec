#!/bin/sh
# clang-tidy-19 with .clang-tidy over every file that BUILD compiles. usage: tidy.sh BUILD [--analyzer] [FILE...]: without
# --analyzer the checks that look at one expression (a minute or two); with it also clang's path-sensitive analyser (half
# an hour on two cores).
set -eu
build=$(cd "${1:?usage: tidy.sh BUILD [--analyzer] [FILE...]}" && pwd)
shift
cd "$(dirname "$0")/../.."
checks=-clang-analyzer-*
extra=-Wno-enum-float-conversion
if [ "${1:-}" = --analyzer ]; then checks=; extra=-include$PWD/tests/project/tidy.h; shift; fi
if [ $# = 0 ]; then
  # shellcheck disable=SC2046
  set -- $(sed -n 's/^ *"file": "\(.*\.c\)",*$/\1/p' "$build/compile_commands.json" | grep -v "^$build/" | sort -u)
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
status=0
printf '%s\n' "$@" | xargs -n 8 -P 2 clang-tidy-19 -p "$build" --quiet --checks="$checks" --extra-arg="$extra" --extra-arg="-I$PWD/include" \
  --extra-arg=-Wno-enum-float-conversion \
  > "$work/out" 2> "$work/errors" || status=1
grep -E 'warning:|error:' "$work/out" "$work/errors" | sed "s#^[^:]*:##; s#^$PWD/##" | sort -u
[ $status = 0 ] && echo "clang-tidy: $# files clean"
exit $status
