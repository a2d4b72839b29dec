#!/bin/bash
# Builds Weft on a CUDA machine (no LLVM, ONNX or Check needed) and trains there: one step of small models against the
# interpreter, then steps of real ones beside torch.compile with the same settings, and a whole training.
# usage: bench/gpu_train.sh [--out FOLDER] [--part NAME]...     parts: check char gpt2 memory vit vit-large vit-tiny pinn learn learn-torch; hunt only when named
set -u
cd "$(dirname "$0")/.."
out=${OUT:-build/gpu-train}; parts=""
while [ $# -gt 0 ]; do
  case $1 in
    --part) parts="$parts $2"; shift 2 ;;
    --out) out=$2; shift 2 ;;
    *) echo "usage: bench/gpu_train.sh [--out FOLDER] [--part NAME]..."; exit 2 ;;
  esac
done
parts=${parts:-check char gpt2 memory vit vit-large vit-tiny pinn learn learn-torch}
mkdir -p "$out"
{ nvidia-smi --query-gpu=name,driver_version,clocks.sm,power.limit --format=csv,noheader; cmake --version | head -1; cc --version | head -1; git log -1 --format=%h; } > "$out/machine.txt" 2>&1
cat "$out/machine.txt"
cmake -S . -B build/gpu -G Ninja -DCMAKE_BUILD_TYPE=Release -DWEFT_LLVM=OFF -DWEFT_ONNX=OFF -DWEFT_TESTS=OFF -DWEFT_WERROR=OFF > "$out/build-train.log" 2>&1 &&
  cmake --build build/gpu --target weft_gpu_train >> "$out/build-train.log" 2>&1 || { tail -40 "$out/build-train.log"; echo "build failed"; exit 1; }
# NVRTC and the driver's library may lie outside of the loader's path
for folder in /usr/local/cuda/lib64 /usr/local/cuda/lib /usr/local/nvidia/lib64; do [ -d $folder ] && LD_LIBRARY_PATH=${LD_LIBRARY_PATH:-}:$folder; done
export LD_LIBRARY_PATH
code=0; : > "$out/train-table.txt"
for part in $parts; do
  PYTHONUNBUFFERED=1 timeout ${PART_SECONDS:-150} python3 bench/gpu_train.py build/gpu/bench/weft_gpu_train "$part" "$out" > "$out/train-$part.log" 2>&1
  ended=$?
  [ $ended -eq 0 ] || { code=1; echo "train part $part ended with $ended" >> "$out/train-$part.log"; }
  cat "$out/train-$part.log"
  grep -aE "^train" "$out/train-$part.log" | cut -c1-400 >> "$out/train-table.txt"
done
echo "---- table"; cat "$out/train-table.txt"
exit $code
