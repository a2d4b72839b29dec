#!/bin/sh
# Installs the Debian packages that Weft builds and tests with. Needs root or sudo when something is missing.
set -eu
packages="gcc g++ libc6-dev cmake ninja-build pkg-config check llvm-19-dev clang-19 lld-19 clang-format-19 libclang-rt-19-dev
 libprotobuf-c-dev protobuf-c-compiler python3-venv ccache libopenblas0-pthread"
missing=""
for package in $packages; do
  dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q 'install ok installed' || missing="$missing $package"
done
[ -z "$missing" ] && exit 0
echo "setup: installing$missing"
sudo=""
if [ "$(id -u)" != 0 ]; then sudo=sudo; fi
export DEBIAN_FRONTEND=noninteractive
$sudo apt-get update -q
# shellcheck disable=SC2086
$sudo apt-get install -q -y --no-install-recommends $missing
