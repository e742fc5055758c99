"""The machine below us: cgroup layout, kernel files read and written in order, the restore journal, inotify.

No other room opens a kernel file for writing. It decides no value: callers pass targets.
"""
