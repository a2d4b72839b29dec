#!/bin/sh
# Includes follow the arrows of CMakeLists.txt: base <- ir <- passes <- codegen; base <- runtime; frontend -> ir, base;
# compile sees both sides; stdlib and the examples see the public headers (stdlib also base); a header of include/weft sees
# only others. Everyone may include weft/*.h.
set -eu
cd "$(dirname "$0")/../.."
allowed() {
  case $1 in
    include) echo weft ;;
    base) echo base weft ;;
    ir) echo ir base weft ;;
    frontend) echo frontend ir base weft ;;
    passes) echo passes ir base weft ;;
    codegen) echo codegen passes ir base weft ;;
    runtime) echo runtime base weft ;;
    compile) echo compile codegen passes ir runtime base weft ;;
    stdlib) echo stdlib base weft ;;
    examples) echo weft ;;
  esac
}
failed=0
for folder in include base ir frontend passes codegen runtime compile stdlib examples; do
  [ -d $folder ] || continue
  found=$(find $folder -name '*.[ch]' -exec grep -Hno '^ *# *include "[a-z]*/' {} + | sed 's/^\([^:]*:[0-9]*\):.*"\([a-z]*\)\/$/\1 \2/' || true)
  [ -n "$found" ] || continue
  may=" $(allowed $folder) "
  while read -r where target; do
    case $may in
      *" $target "*) ;;
      *) echo "$where: $folder/ must not include $target/"; failed=1 ;;
    esac
  done <<EOF
$found
EOF
done
[ $failed = 0 ] && echo "includes follow the arrows"
exit $failed
