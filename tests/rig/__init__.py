"""A real containerd: started from the distribution's own packages, and removed again without remains."""


class RigError(Exception):
    """Report that the rig could not be set up or cleaned up; it is never an assertion about the product."""
