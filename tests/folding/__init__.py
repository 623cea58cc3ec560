"""How a watcher's picture of a turn follows from the events that reached it."""
