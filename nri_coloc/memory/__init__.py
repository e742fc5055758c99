"""How much memory the reclaim cgroups may hold, and how it is divided among them. Pure."""
