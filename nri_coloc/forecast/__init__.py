"""What online pods are expected to use, and the capacity that is advertised from it."""
