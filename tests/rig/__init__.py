"""A real containerd, brought up from the distribution's own packages and taken down again without remains."""


class RigError(Exception):
    """The rig could not be set up, or could not be cleaned up; never an assertion about the product."""
