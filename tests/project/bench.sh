#!/bin/sh
# bench/gpu_peers as far as a machine without a card can tell: its table names functions that exist, its last line says what
# the results of several processes say, and, where PyTorch is, all parts run on tensors without contents.
set -eu
cd "$(dirname "$0")/../.."
python=${WEFT_BENCH_PYTHON:-python3}
folder=$(mktemp -d)
trap 'rm -r "$folder"' EXIT
export PYTHONDONTWRITEBYTECODE=1
must() { # must NAME EXPECTED ACTUAL
  [ "$2" = "$3" ] && return
  printf '%s\nwanted: %s\ngot:    %s\n' "$1" "$2" "$3"
  exit 1
}
for file in bench/*.py bench/gpu_peers/*.py; do python3 -c 'import ast, sys; ast.parse(open(sys.argv[1]).read())' "$file"; done
python3 bench/gpu_peers --list | while read -r part file rest; do
  grep -q "^def part_$(printf %s "$part" | tr - _)(" "bench/gpu_peers/$file" || { echo "part $part is not in $file"; exit 1; }
done
count=$(cat bench/gpu_peers/*.py | grep -c '^def part_')
must "parts that the table lacks" "$count" "$(python3 bench/gpu_peers --list | wc -l | tr -d ' ')"
must "an unknown part" 2 "$(python3 bench/gpu_peers none.so none.json nothing > "$folder/text" && echo 0 || echo $?)"

result() { printf '{"part": "%s", "ratio": %s}' "$1" "$2"; }
head='"versions": {}, "copy_TBps": null'
printf '{%s, "tested": 3, "failures": [], "results": [%s, %s, {"part": "gemm", "missing": "no"}]}' "$head" "$(result gemm 0.5)" "$(result gemm 2.0)" > "$folder/gpu-gemm.json"
printf '{%s, "tested": 4, "failures": ["row: wrong"], "results": [%s, %s]}' "$head" "$(result row 3.0)" "$(result attention 1.25)" > "$folder/gpu-row.json"
printf '[{"case": "a", "right": true}, {"case": "b", "ratio": 1.21}]' > "$folder/vit.json"
printf '[{"case": "c", "ratio": 1.0}]' > "$folder/vit-large.json"
python3 bench/gpu_peers --merge "$folder" > "$folder/text"
must "the first line" "all parts: 7 compared, 1 failed" "$(head -1 "$folder/text")"
must "the last line" "geomean vs best of torch: gemm 1.00 attention-fwd 1.25 attention-bwd - row 3.00 model 1.10" "$(tail -1 "$folder/text")"

if $python -c 'import torch' 2> "$folder/text"; then
  $python bench/gpu_peers --rehearse > "$folder/text" 2>&1 || { tail -20 "$folder/text"; exit 1; }
  tail -1 "$folder/text"
else
  echo "no PyTorch: parts were not rehearsed"
fi
