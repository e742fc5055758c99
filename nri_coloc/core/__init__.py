"""The one vocabulary and the one state: immutable values that every room may import.

Pure: nothing here reads a file or a clock.
"""
