-- One ordered log of everything that happened. A row gets its public number (`seq`) after its transaction committed, by
-- corral_number_events(): a number handed out before the commit could become visible after a larger one.
CREATE TABLE corral_events (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    seq bigint UNIQUE,
    instance_id text NOT NULL,
    type text NOT NULL,
    status text NOT NULL,
    previous_status text,
    operation_id text NOT NULL,
    reason text NOT NULL,
    at timestamptz NOT NULL,
    data jsonb NOT NULL
);

CREATE INDEX corral_events_unnumbered ON corral_events (id) WHERE seq IS NULL;
CREATE INDEX corral_events_by_instance ON corral_events (instance_id, id);

CREATE FUNCTION corral_number_events() RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    last bigint;
BEGIN
    -- One at a time; each statement below then sees everything committed before it got its turn.
    PERFORM pg_advisory_xact_lock(hashtext('corral_number_events'));
    SELECT coalesce(max(seq), 0) INTO last FROM corral_events;
    WITH fresh AS (
        SELECT id, last + row_number() OVER (ORDER BY id) AS number FROM corral_events WHERE seq IS NULL
    )
    UPDATE corral_events AS e SET seq = fresh.number FROM fresh WHERE e.id = fresh.id;
    SELECT coalesce(max(seq), 0) INTO last FROM corral_events;
    RETURN last;
END
$$;
