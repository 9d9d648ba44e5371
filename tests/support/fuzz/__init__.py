"""
Where bytes from outside meet our code, as plain functions from bytes to nothing; they raise when a promise is broken.

`make test` drives them with Hypothesis, `make fuzz` with atheris, which sees which lines an input reaches and goes on
from there. Both begin with the same seeds and change them in the same ways.
"""
