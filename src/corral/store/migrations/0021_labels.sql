-- What users sort instances by. A column and not only part of `record`, as `created_by` is: a process of an earlier release
-- that writes the record again would drop it there. Null without labels, so that those rows cost the index nothing.
ALTER TABLE corral_instances ADD COLUMN labels jsonb;
CREATE INDEX corral_instances_by_label ON corral_instances USING gin (labels) WHERE labels IS NOT NULL;

-- Searched by, like the name; a record can be large, and reading every one of them for this takes long. Null in rows that a
-- process of an earlier release adds.
ALTER TABLE corral_instances ADD COLUMN product_name text;
UPDATE corral_instances SET product_name = record #>> '{order,product_name}';
