-- Who asked for what, and what came of it: one row for every call that could change something, also the refused ones.
CREATE TABLE corral_audit (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at timestamptz NOT NULL,
    who text NOT NULL,
    key_id text,
    access text,
    method text NOT NULL,
    route text,
    path text NOT NULL,
    instance_id text,
    address text NOT NULL,
    status integer NOT NULL,
    error_code text,
    request_id text NOT NULL
);

CREATE INDEX corral_audit_by_instance ON corral_audit (instance_id, id) WHERE instance_id IS NOT NULL;
-- Rows come in the order of time, so a few blocks' worth of bounds is enough to find the old ones.
CREATE INDEX corral_audit_by_age ON corral_audit USING brin (at);
