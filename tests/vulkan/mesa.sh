#!/bin/bash
# Runs a command on the lavapipe of a newer Debian than this one, which has cooperative matrices, with the loader and the
# libraries that it was built for, beside the system's own. Packages come through apt with lists of their own; nothing is
# installed. usage: tests/vulkan/mesa.sh [--fetch SUITE] COMMAND...      (SUITE: sid; forky when it has Mesa 26)
set -eu
home=${WEFT_MESA:-${XDG_CACHE_HOME:-$HOME/.cache}/weft-mesa}
if [ "${1:-}" = --fetch ]; then
  suite=$2; shift 2
  mkdir -p "$home"/apt/etc/apt/{apt.conf,preferences}.d "$home"/apt/lists/partial "$home"/apt/cache/archives/partial "$home"/debs "$home"/root
  : > "$home/apt/status"
  echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] http://deb.debian.org/debian $suite main" > "$home/apt/etc/apt/sources.list"
  cat > "$home/apt/conf" <<CONF
Dir::State::lists "$home/apt/lists"; Dir::State::status "$home/apt/status"; Dir::Cache "$home/apt/cache";
Dir::Etc "$home/apt/etc/apt"; APT::Sandbox::User "root"; Acquire::Languages "none"; Acquire::Check-Valid-Until "false";
CONF
  export APT_CONFIG="$home/apt/conf"
  apt-get -q update
  cd "$home/debs"
  # shellcheck disable=SC2046 # one word a package
  apt-get -q download $(apt-get install --no-install-recommends -s mesa-vulkan-drivers libvulkan1 | awk '/^Inst/ {print $2}')
  for package in *.deb; do dpkg-deb -x "$package" "$home/root"; done
  cd - > /dev/null
  unset APT_CONFIG
fi
libraries=$home/root/usr/lib/x86_64-linux-gnu
[ -e "$libraries/libvulkan_lvp.so" ] || { echo "no lavapipe in $home: tests/vulkan/mesa.sh --fetch sid COMMAND"; exit 1; }
sed "s#\"library_path\": *\"[^\"]*\"#\"library_path\": \"$libraries/libvulkan_lvp.so\"#" "$home/root/usr/share/vulkan/icd.d/lvp_icd.json" > "$home/lavapipe.json"
export VK_DRIVER_FILES="$home/lavapipe.json" VK_ICD_FILENAMES="$home/lavapipe.json"
[ $# -gt 0 ] || exit 0
program=$(command -v "$1"); shift
exec "$libraries/ld-linux-x86-64.so.2" --library-path "$libraries:/usr/lib/x86_64-linux-gnu:/lib/x86_64-linux-gnu${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}" "$program" "$@"
