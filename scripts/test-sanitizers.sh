#!/bin/sh
# The tests under AddressSanitizer and UndefinedBehaviorSanitizer, the threaded ones under ThreadSanitizer, and a build
# without warnings by clang. About half an hour on two cores: not part of scripts/test.sh.
set -eu
cd "$(dirname "$0")/.."
cmake --preset asan
cmake --build --preset asan
CK_TIMEOUT_MULTIPLIER=10 ctest --preset asan -j 2
cmake --preset tsan
cmake --build --preset tsan --target test-base test-runtime
CK_TIMEOUT_MULTIPLIER=10 ctest --preset tsan -R '^(base|runtime)$'
cmake -S . -B build/clang -G Ninja -DCMAKE_C_COMPILER=clang-19 -DCMAKE_BUILD_TYPE=RelWithDebInfo
cmake --build build/clang
