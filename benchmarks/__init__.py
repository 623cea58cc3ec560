"""How fast it is, as ratios within one run. Nothing here is a test, and no test measures a time."""
