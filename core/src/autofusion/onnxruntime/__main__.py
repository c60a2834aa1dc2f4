"""Run an unchanged program with its onnxruntime models on Autofusion.

python -m autofusion.onnxruntime SCRIPT ARGS...
python -m autofusion.onnxruntime -m MODULE ARGS...
"""

from __future__ import annotations

import os
import runpy
import sys

from autofusion.onnxruntime.real import install


def main() -> None:
    """Start the program named by the arguments, as Python itself would."""
    arguments = sys.argv[1:]
    if not arguments or arguments[0] in ("-h", "--help") or arguments == ["-m"]:
        print(__doc__, file=sys.stdout if arguments[:1] in (["-h"], ["--help"]) else sys.stderr)
        sys.exit(0 if arguments[:1] in (["-h"], ["--help"]) else 2)
    install()
    if arguments[0] == "-m":
        sys.argv = arguments[1:]
        runpy.run_module(arguments[1], run_name="__main__", alter_sys=True)
        return
    script = arguments[0]
    if not os.path.exists(script):
        sys.exit(f"python -m autofusion.onnxruntime: there is no program '{script}'")
    sys.argv = arguments
    sys.path[0] = os.path.dirname(os.path.realpath(script))
    runpy.run_path(script, run_name="__main__")


if __name__ == "__main__":
    main()
