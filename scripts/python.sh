#!/bin/sh
# Makes .venv with the pinned packages of tests/requirements.txt: reference engines and packages that carry real models.
set -eu
cd "$(dirname "$0")/.."
stamp=.venv/requirements.stamp
cmp -s tests/requirements.txt "$stamp" 2>/dev/null && exit 0
python=python3
for candidate in /usr/bin/python3 python3; do
  if "$candidate" -c 'import sys, venv; sys.exit(sys.version_info[:2] != (3, 11))' 2>/dev/null; then python=$candidate; break; fi
done
"$python" -m venv .venv
.venv/bin/pip install -q --disable-pip-version-check --no-deps --require-hashes -r tests/requirements.txt
cp tests/requirements.txt "$stamp"
