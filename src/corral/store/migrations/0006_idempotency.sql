-- What was answered to requests that carried an Idempotency-Key, for a day, so that a repetition does nothing twice.
-- A row without an answer is a claim: the request is being executed, and another may take it over when its time is up.
CREATE TABLE corral_idempotency (
    key text PRIMARY KEY,
    fingerprint bytea NOT NULL,
    status integer,
    body bytea,
    claimed_until timestamptz,
    kept_at timestamptz NOT NULL,
    CHECK ((status IS NULL) = (body IS NULL)),
    CHECK (status IS NOT NULL OR claimed_until IS NOT NULL)
);

CREATE INDEX corral_idempotency_by_age ON corral_idempotency (kept_at);
