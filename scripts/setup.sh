#!/bin/sh
# Installs the Debian packages that Weft builds and tests with. Needs root or sudo when something is missing.
set -eu
packages="gcc g++ libc6-dev cmake ninja-build pkg-config check llvm-19-dev clang-19 lld-19 clang-format-19 clang-tidy-19 libclang-rt-19-dev
 libprotobuf-c-dev protobuf-c-compiler python3 python3-venv ca-certificates ccache libopenblas0-pthread
 spirv-tools libtomlplusplus-dev libarchive-dev libturbojpeg0-dev libvulkan-dev libvulkan1 mesa-vulkan-drivers dataset-fashion-mnist"
missing=""
for package in $packages; do
  dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q 'install ok installed' || missing="$missing $package"
done
[ -z "$missing" ] && exit 0
echo "setup: installing$missing"
as_root="env DEBIAN_FRONTEND=noninteractive"
if [ "$(id -u)" != 0 ]; then
  command -v sudo > /dev/null || { echo "setup: not root and no sudo; as root: apt-get install$missing" >&2; exit 1; }
  as_root="sudo env DEBIAN_FRONTEND=noninteractive"
fi
$as_root apt-get update -q
# shellcheck disable=SC2086
$as_root apt-get install -q -y --no-install-recommends $missing
