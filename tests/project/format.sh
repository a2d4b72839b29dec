#!/bin/sh
# Every C file is as clang-format-19 writes it (.clang-format). usage: format.sh [--write]
set -eu
cd "$(dirname "$0")/../.."
folders="base bench cli codegen compile examples frontend include ir passes runtime stdlib tests"
mode="--dry-run -Werror"
[ "${1:-}" = --write ] && mode=-i
find $folders -name '*.[ch]' -print0 | xargs -0 -P 2 -n 24 clang-format-19 $mode
