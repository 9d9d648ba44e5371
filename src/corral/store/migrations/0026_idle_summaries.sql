-- A row may summarize the measurements of some time, so that a rule over days needs no tens of thousands of them: `at` is then
-- when that time began, `newest_at` the newest measurement, and `measured` how much of it they speak for.
ALTER TABLE corral_idle_samples ADD COLUMN newest_at timestamptz;
ALTER TABLE corral_idle_samples ADD COLUMN measured interval;
