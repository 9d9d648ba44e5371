-- The caller that requested each instance: the name of its key, or `local`. It is a column and not only part of `record`,
-- because a process of an earlier release that writes the record again, during an upgrade, would drop it there. Null for
-- instances of earlier releases.
ALTER TABLE corral_instances ADD COLUMN created_by text;
