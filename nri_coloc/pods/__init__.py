"""What a pod asks for: our annotations, other agents' vocabularies, and the gate that limits both. Pure."""
