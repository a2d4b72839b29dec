#!/bin/sh
# Installs Chromium for tests/webgpu (about 100 MB; needs root or sudo when it is missing). Without it those tests are
# skipped.
set -eu
command -v chromium > /dev/null && exit 0
sudo=""
if [ "$(id -u)" != 0 ]; then sudo=sudo; fi
export DEBIAN_FRONTEND=noninteractive
$sudo apt-get update -q
$sudo apt-get install -q -y --no-install-recommends chromium
