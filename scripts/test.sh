#!/bin/sh
# Sets everything up, builds, runs every test. Last line: N passed, N failed: the single checks that the test programs
# report, and 1 for each test that is a script or an example.
set -eu
cd "$(dirname "$0")/.."
sh scripts/setup.sh
[ -n "${WEFT_NO_BROWSER:-}" ] || sh scripts/setup-browser.sh || echo "no browser: tests/webgpu will be skipped"
cmake --preset release
cmake --build --preset release
status=0
ctest --preset release -C Full -j 2 || status=$?
sh scripts/count.sh build/release/Testing/Temporary/LastTest.log $status
exit $status
