"""`python -m nri_coloc` is `nri-coloc`."""

from nri_coloc.cli.main import entry

entry()
