"""How fast it is, as ratios within one run, and how it bears a long load. No test measures a time."""
