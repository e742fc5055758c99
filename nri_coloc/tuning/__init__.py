"""Slow adjustments of single containers, one file each: quota bursts, lent amounts. Pure."""
