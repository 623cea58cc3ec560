"""How hypothesis runs here: no example is refused for its time, for no test of this project asserts one."""

from hypothesis import settings

settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")
