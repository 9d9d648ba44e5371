#!/bin/sh
# Builds wheel and sdist of `corral` and of `corral-client` into dist/, or into the folder given: dist.sh [FOLDER].
# The client is built from a copy, because a project's sources must be inside its folder (docs/decisions/0015).
set -eu
uv=${UV:-.venv/bin/uv}
out=${1:-dist}
. tools/system-certs.sh
draft=$(mktemp -d)
trap 'rm -rf "$draft"' EXIT
mkdir -p "$out" "$draft/src"
cp client/pyproject.toml client/README.md LICENSE "$draft"
cp -R src/corral_client "$draft/src"
rm -f "$out"/corral-*.whl "$out"/corral-*.tar.gz "$out"/corral_client-*.whl "$out"/corral_client-*.tar.gz
for project in . "$draft"; do
    "$uv" build --quiet --no-create-gitignore --out-dir "$out" "$project"
done
