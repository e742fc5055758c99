"""The commands of `nri-coloc`: arguments in, text and an exit code out."""
