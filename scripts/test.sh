#!/bin/sh
# Sets everything up, builds, runs the tests; with WEFT_TEST_FULL=1 also the slow ones (installation of shared libraries,
# every kernel in a browser). Last line: N passed, N failed: the single checks that the test programs report, and 1 for
# each test that is a script or an example.
set -eu
cd "$(dirname "$0")/.."
sh scripts/setup.sh
sh scripts/setup-browser.sh
sh scripts/python.sh || echo "without the Python packages WebGPU is not run natively"
cmake --preset release
cmake --build --preset release
status=0
ctest --preset release ${WEFT_TEST_FULL:+-C Full} -j 2 || status=$?
sh scripts/count.sh build/release/Testing/Temporary/LastTest.log $status
exit $status
