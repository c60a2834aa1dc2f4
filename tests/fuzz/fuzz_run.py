"""Many seeds, from the command line: python tests/fuzz/fuzz_run.py FIRST LAST [--shrink]."""

from __future__ import annotations

import argparse
import collections
import sys
import time

from autofusion.ir.text import to_text
from tests.fuzz.fuzz_check import problems, ways
from tests.fuzz.fuzz_graphs import random_graph
from tests.fuzz.fuzz_shrink import shrink


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("first", type=int)
    parser.add_argument("last", type=int)
    parser.add_argument("--shrink", action="store_true")
    parser.add_argument("--seconds", type=float, default=1e9)
    arguments = parser.parse_args()
    end = time.monotonic() + arguments.seconds
    bad, ops = 0, collections.Counter[str]()
    for seed in range(arguments.first, arguments.last):
        if time.monotonic() > end:
            print(f"stopped before seed {seed}")
            break
        made = random_graph(seed)
        ops.update(n.op for n in made.graph.nodes)
        found = problems(made.graph, made.feeds, ways(seed), seed)
        if found:
            bad += 1
            print(f"=== seed {seed}: {len(made.graph)} nodes, {found[:4]}", flush=True)
            if arguments.shrink:
                chosen = [w for w in ways(seed) if any(f.startswith(str(w)) for f in found)]
                graph, feeds = shrink(made.graph, made.feeds, lambda g, f, c=chosen, s=seed: bool(problems(g, f, c, s)))
                print(to_text(graph))
                print(problems(graph, feeds, chosen, seed)[:3], flush=True)
    print(f"{bad} bad; operators: {dict(ops.most_common())}")
    return bad > 0


if __name__ == "__main__":
    sys.exit(main())
