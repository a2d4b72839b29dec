#!/bin/sh
# A small GPT trained for a few steps with products in bf16, on the emulated card and on this CPU: the losses agree to
# what bf16 allows.
# usage: train.sh BUILD_FOLDER ARCH
set -eu
build=$(cd "${1:?usage: train.sh BUILD_FOLDER ARCH}" && pwd) arch=${2:?usage: train.sh BUILD_FOLDER ARCH}
cd "$(dirname "$0")/../.."
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export LD_LIBRARY_PATH="$build/tests/hip" WEFT_CACHE= WEFT_FAKE_HIP_ARCH="$arch"
for device in cpu amdgcn; do
  cat > "$folder/$device.toml" <<END
[data]
text = "tests/data/tinyshakespeare.txt"
[model]
kind = "gpt"
layers = 2
heads = 2
width = 64
context = 32
[train]
steps = 6
batch = 2
device = "$device"
precision = "bf16"
log_every = 1
evaluate_every = 1000
evaluation_batches = 1
checkpoint_every = 1000
folder = "$folder/$device"
resume = false
[schedule]
kind = "cosine"
base = 1e-3
final = 1e-4
warmup = 1
END
  "$build/cli/weft" train "$folder/$device.toml" | grep '^6 steps' | sed 's/.*: //' | tee "$folder/$device.txt"
done
# loss A, validation loss B
paste -d' ' "$folder/cpu.txt" "$folder/amdgcn.txt" | tr -d ',' | awk '
  { for (i = 1; i <= NF; i++) if ($i ~ /^[0-9]+\.[0-9]+$/) x[++n] = $i }
  END { if (n != 4) { print "no losses"; exit 1 }
        for (i = 1; i <= 2; i++) { d = x[i] - x[i + 2]; if (d < 0) d = -d; if (!(d < 0.004)) bad = 1 }
        exit bad }' || { echo "the losses differ"; exit 1; }
