-- Why a machine that carries our mark belongs to no record; see domain/observation/matching.py.
ALTER TABLE corral_orphans ADD COLUMN kind text NOT NULL DEFAULT 'no_record';

-- Listings of the whole account are numbered when they begin, and the last one that was complete, right and compared with
-- the records is noted. A process sends no create before one is compared that began after the process had started.
ALTER TABLE corral_last_look ADD COLUMN begun bigint NOT NULL DEFAULT 0, ADD COLUMN compared bigint NOT NULL DEFAULT 0;
