-- The span of the request that caused an operation (W3C Trace Context), so that the reconciles until its end belong to the
-- same trace, in whichever process they run. Null without traces, and in rows of earlier releases.
ALTER TABLE corral_operations ADD COLUMN traceparent text;
