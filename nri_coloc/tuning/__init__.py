"""Adjustments of single containers, one file each: quota bursts, lent amounts, scheduling hints, OOM scores.

`quota_burst` and `lent_amounts` decide and are pure. The other modules measure, write and record.
"""
