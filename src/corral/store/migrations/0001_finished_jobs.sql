-- PgQueuer deletes a finished job and keeps of it only a line in its log. People want to see what a finished job was
-- about, so its row moves here as it is deleted, whichever statement deletes it. Failed jobs stay in the queue's table.
CREATE TABLE corral_finished_jobs (
    id bigint PRIMARY KEY,
    type text NOT NULL,
    priority integer NOT NULL,
    attempts integer NOT NULL,
    payload jsonb NOT NULL,
    created_at timestamptz NOT NULL,
    started_at timestamptz NOT NULL,
    finished_at timestamptz NOT NULL DEFAULT now()
);

CREATE INDEX corral_finished_jobs_by_end ON corral_finished_jobs (finished_at);
CREATE INDEX corral_finished_jobs_by_instance ON corral_finished_jobs ((payload ->> 'instanceId'), id DESC);

CREATE FUNCTION corral_keep_finished_jobs() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO corral_finished_jobs (id, type, priority, attempts, payload, created_at, started_at)
    SELECT id, entrypoint, priority, attempts, convert_from(coalesce(payload, '{}'), 'UTF8')::jsonb, created, updated
    FROM removed
    WHERE status = 'picked'
    ON CONFLICT (id) DO NOTHING;
    RETURN NULL;
END
$$;

CREATE TRIGGER corral_keep_finished_jobs AFTER DELETE ON corral_pgqueuer
REFERENCING OLD TABLE AS removed FOR EACH STATEMENT EXECUTE FUNCTION corral_keep_finished_jobs();
