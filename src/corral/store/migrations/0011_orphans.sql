-- Provider instances that carry our mark but belong to no record. Since when is kept here, so that no restart begins
-- their time of grace anew, or skips it.
CREATE TABLE corral_orphans (
    provider_id text PRIMARY KEY,
    name text NOT NULL,
    made_for text NOT NULL,
    status text NOT NULL,
    region text,
    cluster_id text,
    product_id text,
    billing_mode text NOT NULL,
    gpu_num integer NOT NULL,
    micro_usd bigint,
    first_seen_at timestamptz NOT NULL,
    last_seen_at timestamptz NOT NULL,
    -- When its deletion was last asked for; from then on it cannot be adopted any more.
    asked_at timestamptz
);
