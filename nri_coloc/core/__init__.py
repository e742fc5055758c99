"""The one vocabulary and the one state: immutable values that every room may import.

Rooms meet here: events, decisions, the seams of a decision (`seams`), and the protocol of their reports (`report`).
Pure: nothing here reads a file or a clock.
"""
