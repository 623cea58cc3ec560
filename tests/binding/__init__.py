"""The binding on real processes: an engine, Workers that are killed, and a runner that follows a script."""
