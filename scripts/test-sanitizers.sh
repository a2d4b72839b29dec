#!/bin/sh
# The tests under AddressSanitizer and UndefinedBehaviorSanitizer, the threaded ones under ThreadSanitizer, and a build
# without warnings by clang; the time of each step is printed. Not part of scripts/test.sh: each sanitizer compiles the
# library once more.
#   usage: scripts/test-sanitizers.sh [asan] [tsan] [clang]     (default: all three)
set -eu
cd "$(dirname "$0")/.."
step() {
  began=$(date +%s)
  "$@"
  echo "$*: $(($(date +%s) - began)) s"
}
export CK_TIMEOUT_MULTIPLIER=10
for part in ${*:-asan tsan clang}; do
  case $part in
    asan)
      step cmake --preset asan
      step cmake --build --preset asan
      step ctest --preset asan -j 2 -E '^project-install' ;; # programs that link the installed library have no sanitizer
    tsan)
      step cmake --preset tsan
      step cmake --build --preset tsan --target test-base test-runtime
      step ctest --preset tsan -R '^(base|runtime)$' ;;
    clang)
      step cmake -S . -B build/clang -G Ninja -DCMAKE_C_COMPILER=clang-19 -DCMAKE_BUILD_TYPE=RelWithDebInfo
      step cmake --build build/clang ;;
    *) echo "test-sanitizers.sh: there is no part $part" >&2; exit 2 ;;
  esac
done
