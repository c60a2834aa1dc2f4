"""Fast CPU kernels generated through LLVM at run time."""
