#!/bin/bash
# Builds Weft on a machine with a Vulkan driver (no LLVM, ONNX or Check needed; Vulkan's and SPIRV-Tools' headers are) and
# tries it there: the device as Weft sees it; products by cooperative matrices and without, right and timed; every op at
# f8e8m0fnu, then every op, against the interpreter. VK_DRIVER_FILES names the driver where the loader does not find it. Ends
# with a short table.
# usage: bench/gpu_vulkan.sh [--out FOLDER] [--seconds N of selftest] [--part NAME]...     parts: matmul selftest
set -uo pipefail
cd "$(dirname "$0")/.."
out=${OUT:-build/gpu-vulkan}; seconds=60; parts=""
while [ $# -gt 0 ]; do
  case $1 in
    --part) parts="$parts $2"; shift 2 ;;
    --out) out=$2; shift 2 ;;
    --seconds) seconds=$2; shift 2 ;;
    *) echo "usage: bench/gpu_vulkan.sh [--out FOLDER] [--seconds N] [--part NAME]..."; exit 2 ;;
  esac
done
parts=${parts:-matmul selftest}
mkdir -p "$out"
cmake -S . -B build/gpu -G Ninja -DCMAKE_BUILD_TYPE=Release -DWEFT_LLVM=OFF -DWEFT_ONNX=OFF -DWEFT_TESTS=OFF -DWEFT_WERROR=OFF > "$out/build-vulkan.log" 2>&1 &&
  cmake --build build/gpu --target weft-command >> "$out/build-vulkan.log" 2>&1 || { tail -40 "$out/build-vulkan.log"; echo "build failed"; exit 1; }
grep -q "SPIR-V code generation: ON" "$out/build-vulkan.log" || { echo "no SPIRV-Tools headers: nothing to try"; exit 1; }
weft=build/gpu/cli/weft; code=0
export WEFT_CACHE=
has() { case " $parts " in *" $1 "*) return 0 ;; esac; return 1; }
table="$out/vulkan-table.txt"; : > "$table"
$weft doctor 2>&1 | grep -i vulkan | tee -a "$table"
if has matmul; then
  mkdir -p "$out/vulkan-products"
  timeout 100 python3 bench/gpu_vulkan.py $weft "$out/vulkan-products" 2>&1 | tee "$out/vulkan-matmul.log" || code=1
  grep -E "^vulkan product" "$out/vulkan-matmul.log" >> "$table"
fi
if has selftest; then
  for what in "--dtype f8e8m0fnu" ""; do
    timeout $((seconds + 60)) $weft selftest vulkan $what --seconds "$seconds" > "$out/vulkan.log" 2>&1 || code=1
    grep -a FAILED "$out/vulkan.log" | cut -c1-200 | head -40 | tee -a "$table"
    tail -1 "$out/vulkan.log" | sed "s/^/vulkan selftest $what: /" >> "$table"
  done
fi
echo "---- table"; cat "$table"
exit $code
