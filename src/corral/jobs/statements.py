"""The statements that show the queue: lists and counts over jobs of every status."""

from __future__ import annotations

from corral.jobs.driver import QUEUE
from corral.jobs.pgqueuer_adapter import LOG
from corral.jobs.registry import Priority


def _status(main_types: str) -> str:
    """
    A job's status as SQL; *main_types* is the parameter that names the types of the main pool.

    A worker takes more jobs than it runs at once. Those that wait for a place in it are pending: the rest of the picked
    ones, in the order in which they were taken. Urgent ones have places of their own.
    """
    ahead = f"""
    SELECT id FROM (
        SELECT job.id, process.seats, row_number() OVER (
            PARTITION BY job.queue_manager_id ORDER BY job.updated, job.priority DESC, job.id
        ) AS place
        FROM {QUEUE} AS job JOIN corral_processes AS process ON process.id = job.queue_manager_id
        WHERE job.status = 'picked' AND job.priority < {Priority.URGENT:d}
          AND job.entrypoint = ANY({main_types}::text[])
    ) AS taken WHERE seats > 0 AND place > seats
    """  # noqa: S608  # constants
    return f"CASE WHEN id IN ({ahead}) THEN 'queued' ELSE status::text END"


_ALL_JOBS = f"""
SELECT id, entrypoint AS type, {_status("$8")} AS status, priority, attempts, created AS created_at,
       convert_from(coalesce(payload, '{{}}'), 'UTF8')::jsonb AS payload,
       CASE WHEN status = 'failed' THEN updated END AS completed_at,
       CASE WHEN status = 'queued' AND execute_after > created THEN execute_after END AS next_retry_at
FROM {QUEUE}
UNION ALL
SELECT id, type, 'successful', priority, attempts, created_at, payload, finished_at, NULL FROM corral_finished_jobs
"""  # noqa: S608  # constants

LIST = f"""
SELECT job.*, picked.created AS processed_at, failure.traceback ->> 'exception_message' AS error
FROM (
    SELECT * FROM ({_ALL_JOBS}) AS every
    WHERE ($1::bigint IS NULL OR id = $1)
      AND ($2::text IS NULL OR type = $2)
      AND ($3::text IS NULL OR status = $3)
      AND ($4::int IS NULL OR least(priority, {Priority.HIGH:d}) = $4)
      AND ($5::text IS NULL OR payload ->> 'instanceId' = $5)
    ORDER BY id DESC LIMIT $6 OFFSET $7
) AS job
LEFT JOIN LATERAL (
    SELECT created FROM {LOG} WHERE job_id = job.id AND status = 'picked' ORDER BY created DESC LIMIT 1
) AS picked ON true
LEFT JOIN LATERAL (
    SELECT traceback FROM {LOG} WHERE job_id = job.id AND traceback IS NOT NULL ORDER BY created DESC LIMIT 1
) AS failure ON true
ORDER BY job.id DESC
"""  # noqa: S608  # constants

STATS = f"""
SELECT {_status("$1")} AS status, entrypoint AS type, count(*) AS jobs,
       min(greatest(created, execute_after)) FILTER (WHERE status = 'queued' AND execute_after <= now()) AS oldest_due
FROM {QUEUE} GROUP BY 1, 2
UNION ALL
SELECT 'successful', type, count(*), NULL FROM corral_finished_jobs GROUP BY 2
"""  # noqa: S608  # constants

BACKLOG = f"""
SELECT {_status("$1")} AS status, count(*) AS jobs,
       now() - min(greatest(created, execute_after)) FILTER (WHERE status = 'queued' AND execute_after <= now()) AS age
FROM {QUEUE} GROUP BY 1
"""  # noqa: S608  # a constant
