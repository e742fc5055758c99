"""Read a pod's wishes: our annotations, other agents' vocabularies, and the gate that limits both. Pure."""
