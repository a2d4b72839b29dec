#!/bin/sh
# Every C snippet of README.md and docs/ that names its file on the line above (`examples/x.c`:) is a verbatim piece of that
# file: its lines are there, in one run, up to the indentation of the whole.
set -eu
cd "$(dirname "$0")/../.."
count=0
for page in README.md docs/*.md; do
  snippets=$(awk -v page="$page" '
    /^`[a-z_\/]*\.[ch]`:$/ { file = $0; gsub(/[`:]/, "", file); next }
    /^```c$/ { if (file == "") { printf "%s:%d: a C snippet without `file.c`: above it\n", page, NR > "/dev/stderr"; bad = 1 } inside = 1; text = ""; next }
    /^```$/ && inside { inside = 0; n++; check(file, text); file = ""; next }
    inside { line = $0; gsub(/^[ \t]+/, "", line); text = text line "\n" }
    function check(file, text,   whole, line) {
      whole = "\n"
      while ((getline line < file) > 0) { gsub(/^[ \t]+/, "", line); whole = whole line "\n" }
      close(file)
      if (index(whole, "\n" text) == 0) { printf "%s: the snippet of %s is not a piece of it:\n%s", page, file, text > "/dev/stderr"; bad = 1 }
    }
    END { print n + 0; exit bad }' "$page") || { echo "$page does not match the examples"; exit 1; }
  count=$((count + snippets))
done
[ "$count" -gt 0 ] || { echo "no snippet found"; exit 1; }
echo "$count snippets are cut from their files"
