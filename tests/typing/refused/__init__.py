"""Each module here breaks one rule that the model's types keep.

Its docstring says which; the line at fault ends with ``# refused:`` and the codes of mypy's errors. No
line may be at fault without that comment, and nothing here is ever run.
"""
