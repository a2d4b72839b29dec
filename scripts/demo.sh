#!/bin/sh
# Sets everything up (Debian packages, build, pinned Python packages) and runs real models: each compiled to one artifact,
# run with libweft-rt alone and just in time, compared with ONNX Runtime. Last line: demo: ok
set -eu
cd "$(dirname "$0")/.."
sh scripts/setup.sh
sh scripts/python.sh
cmake --preset release > /dev/null
cmake --build --preset release
.venv/bin/python tests/models/compare.py build/release "$@"
echo "demo: ok"
