"""
The provider's bill and balance: the calls, the shapes of their answers, and what these mean.

Called by `novita/client.py`. Calls the provider's billing service, which has a limit and outages of its own.
Rule: amounts are read exactly or with the error they may have, and a row that cannot be read is counted.
Start with `calls.py`.
"""
