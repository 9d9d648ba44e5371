#!/bin/sh
# Resolves pyproject.toml into locks/*.txt: exact versions with hashes, for every platform, and no
# index address, so that the same files serve behind any mirror (docs/decisions/0005).
set -eu
uv=${UV:-.venv/bin/uv}
. tools/system-certs.sh
compile() {
    "$uv" pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
        --no-annotate --custom-compile-command "make lock" "$@"
}
echo "uv==0.13.7" | compile - -o locks/uv.txt
compile pyproject.toml --all-extras --group dev -o locks/dev.txt
compile pyproject.toml -c locks/dev.txt -o locks/run.txt
compile pyproject.toml --extra embedded --extra simulator -c locks/dev.txt -o locks/embedded.txt
compile pyproject.toml --all-extras -c locks/dev.txt -o locks/all.txt
compile --group fuzz -o locks/fuzz.txt
