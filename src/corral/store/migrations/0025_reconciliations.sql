-- What the comparison of each day's bill with the usage showed. One row a day: a later attempt replaces the earlier one,
-- unless it could not read the bill.
CREATE TABLE corral_reconciliations (
    day date PRIMARY KEY,
    state text NOT NULL,
    attempted_at timestamptz NOT NULL,
    attempts integer NOT NULL,
    -- When it is attempted again; null: not by itself.
    retry_at timestamptz,
    reason text,
    -- Null while no attempt could read the bill.
    result jsonb
);
