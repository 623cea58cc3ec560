"""The simulator, tested: it searches everything, finds what is planted, and says what it saw."""
