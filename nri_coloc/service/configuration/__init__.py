"""The operator's YAML file: read, checked with line numbers, and turned into `core.settings`."""
