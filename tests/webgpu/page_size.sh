#!/bin/sh
# What a browser loads beside a model: the page and the module as gzip sends them. Fails above 20 KB.
# usage: tests/webgpu/page_size.sh
set -eu
cd "$(dirname "$0")/../../runtime/web"
module=$(gzip -9 -c weft.js | wc -c)
page=$(gzip -9 -c index.html | wc -c)
echo "weft.js $module bytes, index.html $page bytes, together $((module + page)) of 20480"
[ $((module + page)) -le 20480 ]
