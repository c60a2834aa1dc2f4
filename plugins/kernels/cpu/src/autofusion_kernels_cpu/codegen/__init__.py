"""Machine-code generation: instruction sets, an LLVM IR builder, vector mathematics, generated epilogues.

Nothing here imports llvmlite; this package only writes IR text. `native` turns the text into callable code.
"""
