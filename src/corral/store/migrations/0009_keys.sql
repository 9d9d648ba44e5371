-- Who may call. Only the SHA-256 of a key is here; the key itself was shown once, to whoever made it.
CREATE TABLE corral_keys (
    id text PRIMARY KEY,
    name text NOT NULL,
    access text NOT NULL CHECK (access IN ('viewer', 'operator', 'admin')),
    digest bytea NOT NULL UNIQUE CHECK (octet_length(digest) = 32),
    prefix text NOT NULL,
    created_at timestamptz NOT NULL,
    last_used_at timestamptz,
    revoked_at timestamptz
);

-- A name is one key at a time; a revoked key leaves its name to the next.
CREATE UNIQUE INDEX corral_keys_by_name ON corral_keys (name) WHERE revoked_at IS NULL;
