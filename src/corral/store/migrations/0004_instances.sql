-- One row an instance. `record` is the whole of what is known of it; the columns beside it are what is searched by.
CREATE TABLE corral_instances (
    id text PRIMARY KEY,
    name text NOT NULL,
    goal text NOT NULL,
    phase text NOT NULL,
    region text,
    provider_id text UNIQUE,
    generation integer NOT NULL,
    create_in_doubt boolean NOT NULL,
    created_at timestamptz NOT NULL,
    look_at timestamptz,
    record jsonb NOT NULL
);

CREATE INDEX corral_instances_newest ON corral_instances (created_at DESC, id);
CREATE INDEX corral_instances_by_name ON corral_instances (name);
CREATE INDEX corral_instances_by_phase ON corral_instances (phase, created_at DESC);
CREATE INDEX corral_instances_by_region ON corral_instances (region, created_at DESC);
CREATE INDEX corral_instances_due ON corral_instances (look_at) WHERE look_at IS NOT NULL;

CREATE TABLE corral_operations (
    id text PRIMARY KEY,
    instance_id text NOT NULL REFERENCES corral_instances (id) ON DELETE CASCADE,
    kind text NOT NULL,
    status text NOT NULL,
    phases jsonb NOT NULL DEFAULT '{}',
    error jsonb,
    created_at timestamptz NOT NULL
);

CREATE INDEX corral_operations_by_instance ON corral_operations (instance_id, created_at DESC);

-- How long instances of a product took to become ready; the last twenty make the estimate.
CREATE TABLE corral_ready_times (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    product_name text NOT NULL,
    seconds double precision NOT NULL
);

CREATE INDEX corral_ready_times_by_product ON corral_ready_times (product_name, id DESC);

-- What marks provider instances as this installation's: two Corrals on one account must not take each other's for orphans.
CREATE TABLE corral_installation (
    mark text NOT NULL,
    single_row boolean PRIMARY KEY DEFAULT true CHECK (single_row)
);

INSERT INTO corral_installation (mark) VALUES (left(replace(gen_random_uuid()::text, '-', ''), 6));

-- When the provider's whole list was last read, by whichever process leads.
CREATE TABLE corral_last_look (
    at timestamptz,
    single_row boolean PRIMARY KEY DEFAULT true CHECK (single_row)
);

INSERT INTO corral_last_look DEFAULT VALUES;
