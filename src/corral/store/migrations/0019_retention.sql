-- Events are deleted after the retention, and only those that no delivery names. A delivery is written in the transaction
-- of its event, so the constraint proved nothing more, and made every deleted event search the deliveries.
ALTER TABLE corral_deliveries DROP CONSTRAINT corral_deliveries_event_id_fkey;

-- Terminated instances are most of an old database, and every listing and every start reads all others.
CREATE INDEX corral_instances_present ON corral_instances (id) WHERE phase <> 'terminated';
CREATE INDEX corral_instances_in_doubt ON corral_instances (id) WHERE create_in_doubt;
