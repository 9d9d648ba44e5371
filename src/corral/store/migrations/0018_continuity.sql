-- Which server, timeline and database the listings above were compared on. It differs from the present one after a
-- restore, a failover or an import: then the records may be older than the provider's account.
ALTER TABLE corral_last_look ADD COLUMN identity text;
