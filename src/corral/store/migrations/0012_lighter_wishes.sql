-- Less of what every wish and every change of an instance pays for: together a twelfth of the statement of a wish.

-- An operation is written in the transaction that writes its instance, which nothing ever deletes; checking that again,
-- with a lock of the instance's row, told nothing new. Events and the audit log do without it, too.
ALTER TABLE corral_operations DROP CONSTRAINT corral_operations_instance_id_fkey;

-- One index for lists of a phase and for the fleet in numbers, instead of one each.
DROP INDEX corral_instances_in_numbers;
DROP INDEX corral_instances_by_phase;
CREATE INDEX corral_instances_by_phase ON corral_instances (phase, created_at DESC) INCLUDE (micro_usd);
