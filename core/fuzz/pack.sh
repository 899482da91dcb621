#!/bin/sh
# core/fuzz/pack.sh TARGET FILE...: add files to the corpus of a fuzz target, which is the folder TARGET in
# fuzz/corpus.tar.gz. A file is named by its SHA-256, so that adding it twice changes nothing.
set -eu
target=$1
shift
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

tar -xzf "$(dirname "$0")/corpus.tar.gz" -C "$work"
mkdir -p "$work/$target"
for file; do
  cp "$file" "$work/$target/$(sha256sum "$file" | cut -c 1-12)"
done
cd "$(dirname "$0")"
../../scripts/pack corpus.tar.gz "$work"
