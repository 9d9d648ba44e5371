-- How long each instance may run, and what has happened to that since. A column and not only part of `record`, as `labels`
-- is: a process of an earlier release that writes the record again would drop it there, and the instance would never end.
-- Null without a lease, so that those rows cost the indexes nothing.
ALTER TABLE corral_instances ADD COLUMN lease jsonb;
-- What is sampled.
CREATE INDEX corral_instances_idle_rule ON corral_instances (id)
    WHERE phase = 'ready' AND lease #>> '{lease,idle,after}' IS NOT NULL;

-- How busy those instances were, in percent; null is unknown. Read from the provider again where rows are missing.
CREATE TABLE corral_idle_samples (
    instance_id text NOT NULL,
    at timestamptz NOT NULL,
    gpu double precision,
    cpu double precision,
    PRIMARY KEY (instance_id, at)
);
