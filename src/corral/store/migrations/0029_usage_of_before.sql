-- Usage of before this release, from the event log: each event has the status of its instance, and what it cost an hour.
-- The log is taken at its word: a machine was billed in a status for as long as the log has it in that status. It began to
-- be billed between the event of its create or start and the first that shows it running, and what was being stopped or
-- deleted ended somewhere on the way. What is open is confirmed, or ended, by the first listing.
CREATE TABLE corral_usage_gaps (
    instance_id text PRIMARY KEY, -- '' stands for instances that the database no longer has
    until timestamptz NOT NULL -- usage before this is not known
);
-- Few rows, for which the price is looked up.
CREATE INDEX corral_usage_unpriced ON corral_usage (provider_id) WHERE unit_price = 0;

INSERT INTO corral_usage (instance_id, provider_id, kind, cause, unit_price, quantity, estimated, started_earliest,
                          started_latest, ended_earliest, ended_latest, confirmed_at, follows, product_name, region,
                          billing_mode, created_by, labels)
WITH step AS (
    SELECT instance_id, id, at, status, micro_usd, data->>'providerId' AS provider_id,
           status NOT IN ('creating', 'exited', 'terminated') AND data->>'providerId' IS NOT NULL
               AND (status <> 'failed' OR micro_usd > 0) AS billed,
           status = 'exited' AND data->>'providerId' IS NOT NULL AS stopped,
           CASE WHEN status = 'ready' THEN 'serving' WHEN status = 'failed' THEN 'failed'
                WHEN status IN ('stopping', 'deleting') THEN 'deleting' WHEN status = 'exited' THEN 'stopped_disk'
                ELSE 'booting' END AS cause,
           CASE WHEN lag(status) OVER log = 'creating' THEN lag(at) OVER log END AS requested_at,
           lead(at) OVER log AS next_at
    FROM corral_events WINDOW log AS (PARTITION BY instance_id ORDER BY id)
), counted AS ( -- a life is from a create or start until the machine is stopped or gone
    SELECT *, count(*) FILTER (WHERE NOT billed) OVER (PARTITION BY instance_id ORDER BY id) AS life,
           count(*) FILTER (WHERE NOT billed AND NOT stopped) OVER (PARTITION BY instance_id ORDER BY id) AS disk_life
    FROM step
), up AS (
    SELECT *, min(at) FILTER (WHERE status IN ('running', 'health_checking', 'ready')) OVER of_life AS up_at,
           min(at) FILTER (WHERE status IN ('running', 'health_checking', 'ready')) OVER of_disk AS disk_up_at,
           min(id) FILTER (WHERE billed) OVER of_life = id AS is_first,
           min(id) FILTER (WHERE billed) OVER of_disk = id AS is_first_of_disk,
           lead(life) OVER log IS DISTINCT FROM life AS is_last,
           lead(disk_life) OVER log IS DISTINCT FROM disk_life AS is_last_of_disk
    FROM counted
    WINDOW of_life AS (PARTITION BY instance_id, life), of_disk AS (PARTITION BY instance_id, disk_life),
           log AS (PARTITION BY instance_id ORDER BY id)
), span AS (
    SELECT 'gpu' AS kind, instance_id, id, provider_id, cause, micro_usd, at, next_at, up_at, is_last,
           CASE WHEN is_first THEN least(requested_at, at) ELSE at END AS began
    FROM up WHERE billed
    UNION ALL
    SELECT 'disk', instance_id, id, provider_id, cause, micro_usd, at, next_at, disk_up_at, is_last_of_disk,
           CASE WHEN is_first_of_disk THEN least(requested_at, at) ELSE at END
    FROM up WHERE billed OR (stopped AND disk_up_at IS NOT NULL)
), priced AS (
    SELECT s.*, i.record, i.created_by, i.labels, greatest((i.record #>> '{order,gpu_num}')::int, 1) AS gpus,
           coalesce((i.record #>> '{order,rootfs_gb}')::int, 60) - 60 AS disk_gb
    FROM span AS s LEFT JOIN corral_instances AS i ON i.id = s.instance_id
)
SELECT instance_id, provider_id, kind, cause,
       CASE WHEN kind = 'disk' THEN 5000 WHEN micro_usd * 24 % gpus = 0 THEN micro_usd * 24 / gpus ELSE micro_usd * 24 END,
       CASE WHEN kind = 'disk' THEN disk_gb WHEN micro_usd * 24 % gpus = 0 THEN gpus ELSE 1 END,
       kind = 'gpu' AND micro_usd = 0, began,
       -- Until it was seen running it may not have begun; what never was seen may not have been at all.
       CASE WHEN up_at IS NULL THEN next_at WHEN up_at > at THEN least(up_at, next_at) ELSE at END,
       CASE WHEN next_at IS NULL THEN NULL WHEN up_at IS NULL OR (up_at >= next_at) THEN began
            WHEN is_last AND cause = 'deleting' THEN greatest(at, up_at) ELSE next_at END,
       next_at, greatest(at, began), false,
       coalesce(record #>> '{order,product_name}', ''), coalesce(record #>> '{placement,region}', ''),
       coalesce(record #>> '{placement,billing_mode}', ''), created_by, labels
FROM priced
WHERE (kind = 'gpu' OR disk_gb > 0) AND next_at IS DISTINCT FROM began
ORDER BY id;

-- Where the log does not reach back to the create.
INSERT INTO corral_usage_gaps (instance_id, until)
SELECT i.id, coalesce(first.at, now())
FROM corral_instances AS i LEFT JOIN LATERAL (
    SELECT at, previous_status FROM corral_events AS e WHERE e.instance_id = i.id ORDER BY id LIMIT 1
) AS first ON true
WHERE i.provider_id IS NOT NULL AND (first.at IS NULL OR first.previous_status IS NOT NULL);

INSERT INTO corral_usage_gaps (instance_id, until) SELECT '', min(at) FROM corral_events HAVING count(*) > 0;
