"""Faults that users of such systems have met, one promise a file: each on a real agent, Worker processes and an engine.

Every file shows the case itself, its siblings in another order, race, Step or size, and, where the
rule lives in the model, a search of all its interleavings.
"""
