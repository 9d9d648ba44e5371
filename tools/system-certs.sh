# Sourced by setup.sh and lock.sh. Makes uv trust the system's certificate authorities instead of the list it carries:
# behind a proxy that inspects TLS only the system's list has the proxy's authority, and pip already reads that list.
# uv fails at once where the system has no list at all (a bare container); there it keeps its own. UV_SYSTEM_CERTS,
# if the caller has set it, decides.
if [ -z "${UV_SYSTEM_CERTS:-}" ] &&
    "${UV:-.venv/bin/uv}" pip compile --system-certs --offline --quiet - </dev/null >/dev/null 2>&1; then
    export UV_SYSTEM_CERTS=true
fi
