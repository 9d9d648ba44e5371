-- A count lasts for two seconds. One that ends later than that was made before the clock was set back, and counts no more:
-- what was spent since is not in it. Five, because the clocks of two processes may differ by two.
CREATE OR REPLACE FUNCTION corral_reserve(scopes text[], amounts bigint[], at timestamptz) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    one record;
BEGIN
    FOR one IN
        SELECT name, amounts[array_position(scopes, scope)] AS wanted FROM corral_budgets
        WHERE on_limit <> 'notify' AND scope = ANY(scopes) ORDER BY name FOR UPDATE
    LOOP
        UPDATE corral_budgets SET counted_micro_usd = counted_micro_usd + one.wanted
        WHERE name = one.name AND counted_until > at AND counted_until < at + interval '5 seconds'
          AND counted_micro_usd + one.wanted <= limit_micro_usd;
        IF NOT FOUND THEN
            RETURN false;
        END IF;
    END LOOP;
    RETURN true;
END
$$;
