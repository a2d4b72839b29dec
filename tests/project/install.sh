#!/bin/sh
# Installs to a fresh prefix and builds two examples against it, with pkg-config and with find_package, then runs one of
# them; then moves the prefix and builds again. usage: install.sh BUILD_FOLDER [--shared]: --shared first configures and
# builds a folder "shared" beside BUILD_FOLDER with BUILD_SHARED_LIBS=ON.
set -eu
build=$(cd "${1:?usage: install.sh BUILD_FOLDER [--shared]}" && pwd)
shared=${2:-}
source=$(cd "$(dirname "$0")/../.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

if [ "$shared" = --shared ]; then
  # The same sources with the same flags from a folder of the same depth: ccache, where present, has them.
  CCACHE_NOHASHDIR=1 CCACHE_BASEDIR=$source
  export CCACHE_NOHASHDIR CCACHE_BASEDIR
  shared_build=$(dirname "$build")/shared
  flags=$(sed -n 's/^CMAKE_C_FLAGS_RELEASE:[A-Z]*=//p' "$build/CMakeCache.txt")
  cmake -S "$source" -B "$shared_build" -G Ninja -DCMAKE_BUILD_TYPE=Release "-DCMAKE_C_FLAGS_RELEASE=$flags" -DBUILD_SHARED_LIBS=ON -DWEFT_TESTS=OFF > "$work/log" 2>&1 || { cat "$work/log"; exit 1; }
  cmake --build "$shared_build" > "$work/log" 2>&1 || { tail -40 "$work/log"; exit 1; }
  build=$shared_build
fi

run() { # what prefix program: the example prints its rows
  LD_LIBRARY_PATH=$2/lib:${LD_LIBRARY_PATH:-} "$3" > "$work/out" || { cat "$work/out"; echo "$1: the program failed"; exit 1; }
  grep -q "sum 1.0000" "$work/out" || { cat "$work/out"; echo "$1: wrong output"; exit 1; }
}

use() { # prefix
  PKG_CONFIG_PATH=$(find "$1" -name pkgconfig) && export PKG_CONFIG_PATH
  static=--static
  [ "$shared" = --shared ] && static=
  for flavour in "" $static; do
    cc -std=c17 -I"$source/examples" "$source/examples/build_graph.c" -o "$work/build_graph" $(pkg-config $flavour --cflags --libs weft) -lm
    cc -std=c17 -I"$source/examples" "$source/examples/embed.c" -o "$work/embed" $(pkg-config $flavour --cflags --libs weft-rt)
  done
  has_llvm=$(grep -c LLVM "$(find "$1" -name weft.pc)" || true)
  [ "$has_llvm" = 0 ] || run "pkg-config" "$1" "$work/build_graph"
  code=0
  LD_LIBRARY_PATH=$1/lib "$work/embed" > /dev/null 2>&1 || code=$?
  [ $code = 2 ] || { echo "embed without arguments: exit code $code, not 2"; exit 1; }

  rm -rf "$work/user" && mkdir "$work/user"
  cat > "$work/user/CMakeLists.txt" <<EOF
cmake_minimum_required(VERSION 3.25)
project(user LANGUAGES C)
find_package(weft 0.1 REQUIRED)
add_executable(build_graph $source/examples/build_graph.c)
target_link_libraries(build_graph PRIVATE weft::weft m)
add_executable(embed $source/examples/embed.c)
target_link_libraries(embed PRIVATE weft::weft-rt)
EOF
  cmake -S "$work/user" -B "$work/user/build" -G Ninja -DCMAKE_PREFIX_PATH="$1" > "$work/log" 2>&1 || { cat "$work/log"; exit 1; }
  cmake --build "$work/user/build" > "$work/log" 2>&1 || { cat "$work/log"; exit 1; }
  [ "$has_llvm" = 0 ] || run "find_package" "$1" "$work/user/build/build_graph"
}

if [ "$shared" = --shared ]; then
  for library in weft weft-rt; do # the public API and nothing else
    nm -D --defined-only "$build/lib$library.so" | awk '{print $3}' | grep -vxE '__bss_start|_edata|_end' > "$work/symbols"
    [ -s "$work/symbols" ] || { echo "lib$library.so exports nothing"; exit 1; }
    while read -r symbol; do
      grep -rqw -- "$symbol" "$source/include/weft" || { echo "lib$library.so exports $symbol"; exit 1; }
    done < "$work/symbols"
  done
fi

cmake --install "$build" --prefix "$work/first" > "$work/log" 2>&1 || { cat "$work/log"; exit 1; }
"$work/first/bin/weft" --version
use "$work/first"
mv "$work/first" "$work/second"
use "$work/second"
echo "installed, used with pkg-config and find_package, moved, used again"
