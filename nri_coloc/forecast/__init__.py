"""Predict the use of online pods, and compute the advertised capacity from it."""
