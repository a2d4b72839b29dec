#!/bin/sh
# Each public header alone compiles as C11, C17 and C++17 without a warning, and so do all of them together.
set -eu
cd "$(dirname "$0")/../.."
cc=${CC:-cc} cxx=${CXX:-c++}
made=$(mktemp -d)
trap 'rm -rf "$made"' EXIT
warnings="-Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wundef -Wcast-qual -Werror -fsyntax-only -Iinclude"
for header in include/weft/*.h; do
  name=weft/$(basename "$header")
  printf '#include "%s"\n' "$name" >> "$made/all.c"
  printf '#include "%s"\n#include "%s"\n' "$name" "$name" > "$made/$(basename "$header" .h).c"
done
count=0
for file in "$made"/*.c; do
  for standard in c11 c17; do $cc -std=$standard $warnings -Wstrict-prototypes "$file"; done
  $cxx -x c++ -std=c++17 $warnings "$file"
  count=$((count + 1))
done
echo "$count files in C11, C17 and C++17"
