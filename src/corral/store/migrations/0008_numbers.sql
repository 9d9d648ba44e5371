-- What the fleet costs and how soon it is ready, so that both can be told now and looked back at without anybody sampling.
-- Prices are 1/1000000 USD an hour for the whole instance, 0 while nothing runs up.
ALTER TABLE corral_instances ADD COLUMN micro_usd bigint NOT NULL DEFAULT 0;
UPDATE corral_instances SET micro_usd = (record #>> '{placement,micro_usd}')::bigint
WHERE provider_id IS NOT NULL AND phase NOT IN ('creating', 'exited', 'terminated', 'failed')
  AND record #>> '{placement,micro_usd}' IS NOT NULL;
CREATE INDEX corral_instances_in_numbers ON corral_instances (phase, micro_usd);

ALTER TABLE corral_events ADD COLUMN micro_usd_before bigint NOT NULL DEFAULT 0;
ALTER TABLE corral_events ADD COLUMN micro_usd bigint NOT NULL DEFAULT 0;
CREATE INDEX corral_events_by_time ON corral_events USING brin (at); -- they are written in the order of time

-- Only the estimate is made from rows without a time: those from before this file.
ALTER TABLE corral_ready_times ADD COLUMN at timestamptz;
ALTER TABLE corral_ready_times ADD COLUMN kind text NOT NULL DEFAULT 'create';
ALTER TABLE corral_ready_times ADD COLUMN lag_seconds double precision;
CREATE INDEX corral_ready_times_by_time ON corral_ready_times (at);
