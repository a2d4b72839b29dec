#!/bin/sh
# Adds up the log of ctest: the checks of each Check program (its closing lines), 1 for every other test. A test that
# failed without a failing check (a crash, a time limit) counts as one failure, and so does a run of ctest that failed
# without any. usage: count.sh LastTest.log STATUS_OF_CTEST
set -eu
awk -v status="$2" '
  /^[0-9]+\/[0-9]+ Test: / { checks = bad = 0; next }
  /%: Checks: [0-9]+, Failures: [0-9]+, Errors: [0-9]+/ {
    line = $0; sub(/^.*Checks: /, "", line); split(line, n, /[^0-9]+/); checks += n[1]; bad += n[2] + n[3]; next
  }
  /^Test (Passed|Failed)\.$/ {
    tests++
    ok = $0 == "Test Passed."
    if (!checks) checks = 1
    if (!ok && !bad) bad = 1
    passed += checks - bad; failed += bad
  }
  END { if (!failed && (!tests || status)) failed = 1; printf "%d passed, %d failed\n", passed, failed }' "$1"
