"""Sessions that an earlier release opened go on under this one."""
