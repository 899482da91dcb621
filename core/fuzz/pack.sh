#!/bin/sh
# core/fuzz/pack.sh TARGET FILE...: add files to the corpus of a fuzz target, fuzz/TARGET.tar.gz.
#
# Equal corpora give equal archives: entries are sorted, without times and owners.  A file is named by its
# SHA-256, so that adding it twice changes nothing.
set -eu
archive=$(cd "$(dirname "$0")" && pwd)/$1.tar.gz
shift
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

mkdir "$work/corpus"
if [ -e "$archive" ]; then
  tar -xzf "$archive" -C "$work/corpus"
fi
for file; do
  cp "$file" "$work/corpus/$(sha256sum "$file" | cut -c 1-12)"
done
(cd "$work/corpus" && tar -cf "$work/tar" --format=ustar --sort=name --mtime=@0 --owner=0 --group=0 --numeric-owner \
  --mode=644 -- *)
gzip -9n <"$work/tar" >"$archive"
