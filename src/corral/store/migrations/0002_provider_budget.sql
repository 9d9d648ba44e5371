-- How often the provider was asked in the last minute, by all processes together: one row, whose content only the
-- budget's own code reads (as JSON text: nothing is ever searched in it).
CREATE TABLE corral_provider_budget (
    only_one boolean PRIMARY KEY DEFAULT true CHECK (only_one),
    state text
) WITH (fillfactor = 10); -- it is rewritten many times a second; room on its page keeps those rewrites cheap

INSERT INTO corral_provider_budget DEFAULT VALUES;
