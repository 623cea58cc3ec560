"""One list of sessions that must go alike in the simulator and on every engine."""
