"""Wishes of pods: our annotations, other agents' vocabularies, and the gate that limits both. Pure."""
