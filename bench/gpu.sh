#!/bin/bash
# Builds Weft on a CUDA machine (no LLVM, no ONNX, no Check needed), self-tests its kernels, times them beside PyTorch.
# usage: bench/gpu.sh [--part NAME]... [--out FOLDER]     parts: python3 bench/gpu_peers --list
# The last line merges all parts that have left results in FOLDER, of earlier calls and of bench/gpu_models.sh too.
set -u
cd "$(dirname "$0")/.."
out=${OUT:-build/gpu-results}; parts=()
while [ $# -gt 0 ]; do
  case $1 in
    --part) parts+=("$2"); shift 2 ;;
    --out) out=$2; shift 2 ;;
    *) echo "usage: bench/gpu.sh [--part NAME]... [--out FOLDER]"; exit 2 ;;
  esac
done
[ ${#parts[@]} -eq 0 ] && read -r -a parts <<< "$(python3 bench/gpu_peers --default)"
mkdir -p "$out"
{ nvidia-smi --query-gpu=name,driver_version,clocks.sm,power.limit --format=csv,noheader; nvcc --version | tail -2; cmake --version | head -1; cc --version | head -1; git log -1 --format=%h; } > "$out/machine.txt" 2>&1
cat "$out/machine.txt"
cmake -S . -B build/gpu -G Ninja -DCMAKE_BUILD_TYPE=Release -DWEFT_LLVM=OFF -DWEFT_ONNX=OFF -DWEFT_TESTS=OFF -DWEFT_WERROR=OFF > "$out/build.log" 2>&1 &&
  cmake --build build/gpu --target weft_bench >> "$out/build.log" 2>&1 || { tail -40 "$out/build.log"; echo "build failed"; exit 1; }
# NVRTC and the driver's library may lie outside of the loader's path
for folder in /usr/local/cuda/lib64 /usr/local/cuda/lib /usr/local/nvidia/lib64; do [ -d $folder ] && LD_LIBRARY_PATH=${LD_LIBRARY_PATH:-}:$folder; done
export LD_LIBRARY_PATH
# a process and a time limit for each part: a fault in one costs the others nothing
failed=0
: > "$out/gpu.log"
for part in "${parts[@]}"; do
  rm -f "$out/gpu-$part.json"
  PYTHONUNBUFFERED=1 timeout ${PART_SECONDS:-200} python3 bench/gpu_peers build/gpu/bench/libweft_bench.so "$out/gpu-$part.json" "$part" 2>&1 | tee -a "$out/gpu.log"
  code=${PIPESTATUS[0]}
  [ "$code" -eq 0 ] || { failed=1; echo "part $part ended with $code" | tee -a "$out/gpu.log"; }
  [ -f "$out/gpu-$part.json" ] || echo "part $part left no results" | tee -a "$out/gpu.log"
done
python3 bench/gpu_peers --merge "$out" | tee -a "$out/gpu.log"
exit $failed
