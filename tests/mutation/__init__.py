"""Whether the tests of the rules notice a changed rule: ``python -m tests.mutation [RULES_MODULE ...]``."""
