-- Limits on cost. `announced…` is what was reported about the period that began at `announced_since`. `counted_micro_usd`
-- is at least what is spent and reserved, up to `counted_until`: whatever is admitted until then is added to it. Null: it
-- must be counted first.
CREATE TABLE corral_budgets (
    name text PRIMARY KEY,
    scope text NOT NULL,
    period text NOT NULL,
    limit_micro_usd bigint NOT NULL,
    on_limit text NOT NULL,
    thresholds numeric[] NOT NULL,
    created_at timestamptz NOT NULL,
    updated_at timestamptz NOT NULL,
    announced_since timestamptz NOT NULL DEFAULT 'epoch',
    announced numeric[] NOT NULL DEFAULT '{}',
    announced_exhausted boolean NOT NULL DEFAULT false,
    counted_micro_usd bigint,
    counted_until timestamptz
);

-- Whether *amounts*, each for the scope at its place in *scopes*, fit into what is known to be left of every budget; then
-- they are added there. One call for a group of creates, as part of the statement that records them. The rows are locked
-- in the order of their names; with no row, the lock of the table still makes a new budget wait until the creates that did
-- not see it are committed.
CREATE FUNCTION corral_reserve(scopes text[], amounts bigint[], at timestamptz) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    one record;
BEGIN
    FOR one IN
        SELECT name, amounts[array_position(scopes, scope)] AS wanted FROM corral_budgets
        WHERE on_limit <> 'notify' AND scope = ANY(scopes) ORDER BY name FOR UPDATE
    LOOP
        UPDATE corral_budgets SET counted_micro_usd = counted_micro_usd + one.wanted
        WHERE name = one.name AND counted_until > at AND counted_micro_usd + one.wanted <= limit_micro_usd;
        IF NOT FOUND THEN
            RETURN false;
        END IF;
    END LOOP;
    RETURN true;
END
$$;

-- What is set aside for each instance, since when, and whether budgets leave it running. Columns and not only parts of
-- `record`, as `labels` is: a process of an earlier release that writes the record again would drop them there.
ALTER TABLE corral_instances ADD COLUMN reserved_micro_usd bigint;
ALTER TABLE corral_instances ADD COLUMN reserved_at timestamptz;
ALTER TABLE corral_instances ADD COLUMN protected boolean NOT NULL DEFAULT false;
CREATE INDEX corral_instances_reserved ON corral_instances (id) WHERE reserved_micro_usd IS NOT NULL;

-- When a low balance of the account was reported; null: it is not low.
ALTER TABLE corral_installation ADD COLUMN low_balance_at timestamptz;
