-- Spans in which a machine may be billed. The true start lies between started_earliest and started_latest, the true end
-- between ended_earliest and ended_latest. Rows outlive their instances.
--
-- started_latest is null while no observation has shown that the span began: then `confirmed_at` is until when it had not.
-- ended_latest is null while the span is open. ended_earliest is null until it is known how long the machine was certainly
-- billed: up to then it is `confirmed_at` or, if the machine is in every listing (`follows`), the last listing that showed
-- all machines as recorded (corral_last_look.confirmed_at), and never more than ended_latest.
CREATE TABLE corral_usage (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    instance_id text, -- null: a machine that belongs to no instance
    provider_id text NOT NULL,
    kind text NOT NULL,
    cause text NOT NULL,
    unit_price bigint NOT NULL, -- 1/1000000 USD for one unit and one day; 0: not known yet
    quantity integer NOT NULL, -- GPUs, or GB above the free part
    estimated boolean NOT NULL,
    started_earliest timestamptz NOT NULL,
    started_latest timestamptz,
    ended_earliest timestamptz,
    ended_latest timestamptz,
    confirmed_at timestamptz NOT NULL,
    follows boolean NOT NULL,
    product_name text NOT NULL,
    region text NOT NULL,
    billing_mode text NOT NULL,
    created_by text,
    labels jsonb
);

-- What a write looks for: few rows, whatever the age of the database.
CREATE INDEX corral_usage_live ON corral_usage (provider_id) WHERE ended_earliest IS NULL;
CREATE INDEX corral_usage_loose ON corral_usage (provider_id)
    WHERE ended_earliest IS NULL AND cause IN ('duplicate', 'orphan', 'overlap');
-- The cost of one instance, and of a period.
CREATE INDEX corral_usage_by_instance ON corral_usage (instance_id);
CREATE INDEX corral_usage_by_end ON corral_usage (ended_latest) WHERE ended_earliest IS NOT NULL;

ALTER TABLE corral_last_look ADD COLUMN confirmed_at timestamptz;
