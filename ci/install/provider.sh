#!/bin/sh
# Puts the null provider where FI_PROVIDER_PATH can point: alone in a directory,
# by the name that libfabric's own plug-ins have. Replaces it in one step, since
# a running program may have the old one mapped.
set -eu
cd "$(dirname "$0")/../.."
release=${CARGO_TARGET_DIR:-target}/release
mkdir -p "$release/providers"
cp "$release/librankwaynull_fi.so" "$release/providers/.new"
mv -f "$release/providers/.new" "$release/providers/librankwaynull-fi.so"
