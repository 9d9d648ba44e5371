-- How many requests each caller made in its present window, of all processes together.
-- Unlogged: after a crash of PostgreSQL every window begins again, and no request has to wait for the disk.
CREATE UNLOGGED TABLE corral_request_counts (
    caller text PRIMARY KEY,
    used bigint NOT NULL,
    ends_at timestamptz NOT NULL
);
