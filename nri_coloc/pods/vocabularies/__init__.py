"""Annotations of other agents, in terms of our keys: one module for each agent."""
