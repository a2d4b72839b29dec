#!/bin/sh
# docs/ops.md, docs/environment.md and docs/cli.md are what the tables and the command print now; links between pages lead
# to files. usage: docs.sh BUILD_FOLDER [--write]
set -eu
build=$(cd "${1:?usage: docs.sh BUILD_FOLDER [--write]}" && pwd)
cd "$(dirname "$0")/../.."
write=${2:-}
made=$(mktemp -d)
trap 'rm -rf "$made"' EXIT
failed=0

print_cli() {
  weft=$build/cli/weft
  printf '# The weft command\n\nPrinted from the table in `cli/main.c`. Exit codes: 0 done, 1 the command failed, 2 wrong usage.\n\n```\n'
  "$weft" help
  printf '```\n'
  for command in $("$weft" help | sed -n 's/^  weft \([a-z]*\) .*/\1/p'); do
    printf '\n## weft %s\n\n```\n' "$command"
    "$weft" help "$command"
    printf '```\n'
  done
}

"$build/tests/tables" ops > "$made/ops.md"
"$build/tests/tables" environment > "$made/environment.md"
print_cli | sed 's/ *$//' > "$made/cli.md"
for page in ops environment cli; do
  if [ "$write" = --write ]; then cp "$made/$page.md" "docs/$page.md"; continue; fi
  if ! diff -u "docs/$page.md" "$made/$page.md"; then
    echo "docs/$page.md is not current: sh tests/project/docs.sh $build --write"
    failed=1
  fi
done

# [text](file) in every page: the file exists, relative to the page.
for page in $(git ls-files -co --exclude-standard '*.md' 2>/dev/null || find . -name '*.md' -not -path './build/*' -not -path './.venv/*'); do
  for link in $(grep -o '](\([^)#:]*\)[)#]' "$page" | sed 's/^](//;s/[)#]$//'); do
    [ -e "$(dirname "$page")/$link" ] || { echo "$page: the link $link leads nowhere"; failed=1; }
  done
done
exit $failed
