-- An event's public id. Random, because receivers remember it: two installations, or one that began anew, must not
-- call different things by the same name.
ALTER TABLE corral_events ADD COLUMN key uuid NOT NULL DEFAULT gen_random_uuid();
CREATE INDEX corral_events_of_instance_in_order ON corral_events (instance_id, seq);
DROP INDEX corral_events_by_instance;

-- What is to be sent to whom: written in the transaction of the event. `body` is made at the first sending and kept, so
-- that every attempt sends the same bytes. `url` may carry a secret; only `host` is ever shown.
CREATE TABLE corral_deliveries (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    event_id bigint NOT NULL REFERENCES corral_events (id),
    instance_id text NOT NULL,
    url text NOT NULL,
    host text NOT NULL,
    status text NOT NULL DEFAULT 'pending',
    attempts integer NOT NULL DEFAULT 0,
    tries integer NOT NULL DEFAULT 0, -- attempts since it was last asked for
    next_at timestamptz NOT NULL,
    created_at timestamptz NOT NULL,
    ended_at timestamptz,
    body bytea
);

CREATE INDEX corral_deliveries_pending ON corral_deliveries (instance_id, event_id) WHERE status = 'pending';
CREATE INDEX corral_deliveries_overdue ON corral_deliveries (next_at) WHERE status = 'pending';
CREATE INDEX corral_deliveries_by_instance ON corral_deliveries (instance_id, id DESC);
CREATE INDEX corral_deliveries_by_status ON corral_deliveries (status, id DESC);
CREATE INDEX corral_deliveries_by_end ON corral_deliveries (ended_at) WHERE ended_at IS NOT NULL;

CREATE TABLE corral_delivery_attempts (
    delivery_id bigint NOT NULL REFERENCES corral_deliveries (id) ON DELETE CASCADE,
    number integer NOT NULL,
    at timestamptz NOT NULL,
    http_status integer,
    duration_ms integer NOT NULL,
    error text,
    fate text NOT NULL,
    PRIMARY KEY (delivery_id, number)
);

-- Receivers that answered 410: they want to hear no more of this instance.
CREATE TABLE corral_silenced_receivers (
    instance_id text NOT NULL,
    url text NOT NULL,
    PRIMARY KEY (instance_id, url)
);
