-- The secrets of creates that have no machine yet, encrypted: the key is in a file and never in the database. A row is
-- deleted in the transaction that records that no create call can follow.
CREATE TABLE corral_secrets (
    instance_id text PRIMARY KEY,
    key_id text NOT NULL,
    content bytea NOT NULL
);
