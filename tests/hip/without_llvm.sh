#!/bin/sh
# A build without LLVM compiles for AMD GPUs through HIP RTC: built here, then ops against the interpreter on the emulated
# card of a build with LLVM, whose tests have both stand-ins (libamdhip64, libhiprtc).
# usage: without_llvm.sh BUILD_FOLDER [SECONDS of selftest] [ARCH]
set -eu
with=$(cd "${1:?usage: without_llvm.sh BUILD_FOLDER [SECONDS] [ARCH]}" && pwd)
seconds=${2:-60} arch=${3:-gfx942}
cd "$(dirname "$0")/../.."
cmake --preset release -B build/without-llvm -DWEFT_LLVM=OFF -DWEFT_TESTS=OFF > /dev/null
cmake --build build/without-llvm --target weft-command weft-hiprtc > build/without-llvm/log ||
  { tail -30 build/without-llvm/log; exit 1; }
export LD_LIBRARY_PATH="$with/tests/hip" WEFT_CACHE= WEFT_FAKE_HIP_ARCH="$arch"
weft=build/without-llvm/cli/weft
if ldd "$weft" | grep -q LLVM; then echo "this build links LLVM"; exit 1; fi
"$weft" doctor | grep -q 'compiler amdgcn *HIP RTC 6.0' || { echo "no HIP RTC in this build"; exit 1; }
"$weft" selftest amdgcn --seconds "$seconds" --jobs 2
