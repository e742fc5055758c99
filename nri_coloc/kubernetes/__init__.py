"""Decide which lent amounts a node reports to Kubernetes, and read pods' requests and facts from API objects. Pure."""
