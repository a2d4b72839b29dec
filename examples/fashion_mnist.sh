#!/bin/sh
# Trains examples/train_images.c on Debian's dataset-fashion-mnist. usage: fashion_mnist.sh PROGRAM [OPTION...]
set -eu
program=$1
shift
data=${WEFT_FASHION_MNIST:-/usr/share/datasets/fashion-mnist}
folder=$(mktemp -d)
trap 'rm -r "$folder"' EXIT
for file in "$data"/*.gz; do
  zcat "$file" > "$folder/$(basename "$file" .gz)"
done
"$program" "$folder" "$@"
