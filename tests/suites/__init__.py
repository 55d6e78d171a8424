"""Other projects' own tests, run with a memory limit and without: they are not part of this one."""
