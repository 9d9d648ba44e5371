-- Every process on this database and when it last reported, by the database's clock. A process that stops reporting is
-- taken for dead: its jobs go back to the queue and its sessions are ended. `seats`: how many jobs it runs at once.
CREATE TABLE corral_processes (
    id uuid PRIMARY KEY,
    role text NOT NULL,
    place text NOT NULL,
    seats integer NOT NULL DEFAULT 0,
    started_at timestamptz NOT NULL DEFAULT now(),
    seen_at timestamptz NOT NULL DEFAULT now()
);

-- Health asks how long ago the last complete listing was recorded, and clocks of several machines differ: so the
-- database says when (`noted_at`), and the leader how often listings are to be expected (`every`).
ALTER TABLE corral_last_look ADD COLUMN noted_at timestamptz, ADD COLUMN every interval;

-- Whether jobs are processed. One row, for all processes; `paused_at` is null while they are.
CREATE TABLE corral_job_pause (
    paused_at timestamptz,
    paused_by text,
    single_row boolean PRIMARY KEY DEFAULT true CHECK (single_row)
);

INSERT INTO corral_job_pause DEFAULT VALUES;

-- The correlation id of the request that asked for an operation, for the log lines of all jobs that follow from it.
ALTER TABLE corral_operations ADD COLUMN correlation_id text;
