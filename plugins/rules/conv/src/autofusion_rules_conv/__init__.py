"""Convolution rules: folds into weights, bias and activation epilogues."""
