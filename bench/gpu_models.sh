#!/bin/bash
# Builds Weft on a CUDA machine (no LLVM, ONNX or Check needed) and tries whole programs there: `weft doctor`, every op
# against the interpreter (`weft selftest cuda`), the real models that bench/prepare_gpu_models.py packed into packed-models,
# running out of memory, and vision transformers beside torch.compile. Ends with a short table.
# usage: bench/gpu_models.sh [--out FOLDER] [--models FOLDER] [--seconds N of selftest] [--part NAME]...
#        parts: selftest models small faults vit vit-large, and by name only sanitizer: NVIDIA's compute-sanitizer over small cases
#        of all kernels and over the selftest, 8 seconds of it a tool (SANITIZER_SECONDS)
set -u
cd "$(dirname "$0")/.."
out=${OUT:-build/gpu-models}; models=packed-models; seconds=120; parts=""
while [ $# -gt 0 ]; do
  case $1 in
    --part) parts="$parts $2"; shift 2 ;;
    --out) out=$2; shift 2 ;;
    --models) models=$2; shift 2 ;;
    --seconds) seconds=$2; shift 2 ;;
    *) echo "usage: bench/gpu_models.sh [--out FOLDER] [--models FOLDER] [--seconds N] [--part NAME]..."; exit 2 ;;
  esac
done
parts=${parts:-selftest models small faults vit vit-large}
mkdir -p "$out"
{ nvidia-smi --query-gpu=name,driver_version,clocks.sm,power.limit --format=csv,noheader; cmake --version | head -1; cc --version | head -1; git log -1 --format=%h; } > "$out/machine.txt" 2>&1
cat "$out/machine.txt"
cmake -S . -B build/gpu -G Ninja -DCMAKE_BUILD_TYPE=Release -DWEFT_LLVM=OFF -DWEFT_ONNX=OFF -DWEFT_TESTS=OFF -DWEFT_WERROR=OFF > "$out/build-models.log" 2>&1 &&
  cmake --build build/gpu --target weft-command weft_gpu_faults weft_gpu_vit weft_gpu_cases >> "$out/build-models.log" 2>&1 || { tail -40 "$out/build-models.log"; echo "build failed"; exit 1; }
# NVRTC and the driver's library may lie outside of the loader's path
for folder in /usr/local/cuda/lib64 /usr/local/cuda/lib /usr/local/nvidia/lib64; do [ -d $folder ] && LD_LIBRARY_PATH=${LD_LIBRARY_PATH:-}:$folder; done
export LD_LIBRARY_PATH
weft=build/gpu/cli/weft
$weft doctor > "$out/doctor.txt" 2>&1; cat "$out/doctor.txt"
table="$out/table.txt"; : > "$table"; code=0
has() { case " $parts " in *" $1 "*) return 0 ;; esac; return 1; }
if has models; then
  timeout 200 python3 bench/gpu_models.py $weft "$models" --json "$out/models.json" > "$out/models.log" 2>&1 || code=1
  cat "$out/models.log"; grep -E "^(models:|[a-z0-9-]+ +(right|WRONG|[0-9]+x))" "$out/models.log" | cut -c1-200 >> "$table"
fi
if has small; then
  timeout 100 python3 bench/gpu_small.py $weft > "$out/small.log" 2>&1 || code=1
  cat "$out/small.log"; grep -E "^small" "$out/small.log" >> "$table"
fi
if has faults; then
  : > "$out/faults.log"
  for how in plain named; do timeout 60 build/gpu/bench/weft_gpu_faults $how >> "$out/faults.log" 2>&1 || code=1; done
  cat "$out/faults.log"; grep -E "^faults:" "$out/faults.log" >> "$table"
fi
for size in vit vit-large; do
  has $size || continue
  [ $size = vit ] && size_option="" || size_option=--large
  PYTHONUNBUFFERED=1 timeout 200 python3 bench/gpu_vit.py build/gpu/bench/weft_gpu_vit "$out/$size.json" $size_option > "$out/$size.log" 2>&1 || code=1
  cat "$out/$size.log"; grep -E "^vit" "$out/$size.log" | cut -c1-330 >> "$table"
done
if has sanitizer; then
  sanitizer=$(command -v compute-sanitizer || ls /usr/local/cuda/bin/compute-sanitizer 2>/dev/null)
  tools="memcheck racecheck synccheck initcheck"; selftest_seconds=${SANITIZER_SECONDS:-8}
  cases="build/gpu/bench/weft_gpu_cases"; selftest="$weft selftest cuda --seconds $selftest_seconds --jobs 4"
  # code comes from a cache that runs without a tool have filled: compilers are not what is watched
  cache=$(mktemp -d); export WEFT_CACHE=$cache
  timeout 60 $selftest > "$out/sanitizer-plain-selftest.log" 2>&1 &
  timeout 60 $cases > "$out/sanitizer-plain-cases.log" 2>&1; echo "sanitizer, no tool: exit $?; $(tail -1 "$out/sanitizer-plain-cases.log" | cut -c1-200)" >> "$table"
  wait
  watch() { # watch TOOL cases|selftest COMMAND: its log ends with the exit code
    timeout $((selftest_seconds + 50)) "$sanitizer" --tool $1 --target-processes all --print-limit 30 --error-exitcode 9 $3 > "$out/sanitizer-$1-$2.log" 2>&1
    echo "exit $?" >> "$out/sanitizer-$1-$2.log"
  }
  if [ -n "$sanitizer" ]; then # tools beside each other: nothing is timed
    for tool in $tools; do { watch $tool cases "$cases"; watch $tool selftest "$selftest"; } & done
    wait
    for tool in $tools; do
      for what in cases selftest; do
        log="$out/sanitizer-$tool-$what.log"; ended=$(tail -1 "$log")
        [ "$ended" = "exit 0" ] || code=1
        summary=$(grep -aE "(ERROR|RACECHECK) SUMMARY" "$log" | sed 's/=* *//' | sort | uniq -c | sed 's/^ *//' | paste -sd ';' -)
        echo "sanitizer $tool $what: $ended; ${summary:-no summary}; $(grep -aE '^cases:' "$log" || tail -2 "$log" | head -1 | cut -c1-100)" >> "$table"
        # what was reported, each kind once
        grep -aE "^=========.*(Invalid|hazard|Uninitialized|Barrier|Warning:|Error:|Program hit)" "$log" | sed 's/0x[0-9a-f]*/0x../g; s/([0-9,]*)/(..)/g' | sort | uniq -c | sort -rn | head -6 | cut -c1-220 | sed 's/^/  /' >> "$table"
      done
    done
  else
    echo "sanitizer: skipped: no compute-sanitizer on the path or in /usr/local/cuda/bin" >> "$table"
  fi
  unset WEFT_CACHE; rm -r "$cache"
fi
if has selftest; then
  WEFT_CACHE= timeout $((seconds + 60)) $weft selftest cuda --seconds "$seconds" > "$out/selftest.log" 2>&1 || code=1
  grep -ac FAILED "$out/selftest.log" | sed 's/^/selftest, failures listed: /' >> "$table"
  cut -c1-260 "$out/selftest.log" | grep -a FAILED | head -60
  grep -a FAILED "$out/selftest.log" | awk '{print $2}' | sort | uniq -c | sort -rn | awk '{printf "failed  %-24s %s\n", $2, $1}' >> "$table"
  tail -1 "$out/selftest.log" | sed 's/^/selftest: /' >> "$table"
fi
echo "---- table"; cat "$table"
[ -n "$(ls "$out"/gpu-*.json "$out"/vit*.json 2> /dev/null)" ] && python3 bench/gpu_peers --merge "$out" | tail -1 # with what bench/gpu.sh left there
exit $code
