-- The instance and its operation as they were at the event, from which the message is made when it is first sent. Removed
-- then: from there on `body` holds what is sent. Null in rows of earlier releases.
ALTER TABLE corral_deliveries ADD COLUMN snapshot text;
