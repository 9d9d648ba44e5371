"""
Reading an account to compare it with what Corral assumes, and the trial machine of `corral verify --spend`.

Called by `app/verification.py`, without a service and without a database. Calls the provider through
`cloud/novita/raw.py`; `domain/verification/` judges what was read.
Rule: nothing is changed at the provider but machines that carry the mark of this data directory.
Start with `account.py`; `trial.py` creates the machine, `removal.py` deletes it.
"""
