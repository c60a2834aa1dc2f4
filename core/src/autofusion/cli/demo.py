"""``autofusion demo``: two networks unfused and fused, with the gain, the proof and the list of decisions."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import click

from autofusion.files import write_text


@click.command("demo")
@click.option("--threads", type=int, help="Threads to run on. Default: all cores this process may use.")
@click.option(
    "--output",
    "-o",
    type=click.Path(path_type=Path),
    default=Path("autofusion-demo"),
    show_default=True,
    help="Folder for the models and the reports.",
)
@click.option("--seconds", default=4.0, show_default=True, help="Time to measure each network for.")
def command(threads: int | None, output: Path, seconds: float) -> None:
    """Run two networks (random weights, every operator a node of its own) at level off and at level full.

    MobileNetV3-Small has many small operators, ResNet-18 few large ones. Prints the latencies and their ratio, how far
    the outputs are apart, and what was decided; writes the models and the full reports to a folder. Needs no network.
    """
    from autofusion.errors import PluginError
    from autofusion.frontends.contract import Exporter
    from autofusion.plugins.registry import default_registry
    from autofusion.tools.demo.mobilenet import mobilenet_v3_small
    from autofusion.tools.demo.resnet import resnet18

    frontend = default_registry().frontend("onnx")
    if not isinstance(frontend, Exporter):
        raise PluginError("the installed ONNX frontend cannot write models; upgrade autofusion-frontend-onnx")
    output.mkdir(parents=True, exist_ok=True)
    for title, network in (("MobileNetV3-Small", mobilenet_v3_small), ("ResNet-18", resnet18)):
        graph = network()
        model = output / f"{graph.name}.onnx"
        frontend.export(graph, model, inline=True)
        click.echo(f"compiling {title}, then measuring level off and full in turns ...", err=True)
        for line in _compare(title, model, seconds, threads):
            click.echo(line)


def _compare(title: str, model: Path, seconds: float, threads: int | None) -> Iterator[str]:
    """Measure, write the reports beside the model, and say what came out."""
    import json

    import autofusion
    from autofusion.tools import explain, versus

    row = versus.measure(model, {}, ("off", "full"), (), seconds, {"threads": threads})
    session = autofusion.compile(model, threads=threads)
    report, data = model.with_suffix(".report.txt"), model.with_suffix(".report.json")
    write_text(report, "\n".join([*versus.row_lines(row), "", *explain.whole(session)]) + "\n")
    write_text(data, json.dumps({"bench": row, **explain.as_data(session)}, indent=2))
    off, full = row["contenders"]["off"], row["contenders"]["full"]
    yield f"{title}, 1x3x224x224, {row['threads']} threads, every node of the ONNX file alone (off) and fused (full)"
    yield f"  latency off   median {1e3 * off['median']:7.2f} ms   minimum {1e3 * off['minimum']:7.2f} ms"
    yield f"  latency full  median {1e3 * full['median']:7.2f} ms   minimum {1e3 * full['minimum']:7.2f} ms"
    yield f"  fused is {off['ratio_median']:.2f}x as fast (minimum against minimum {off['ratio_minimum']:.2f}x)"
    yield f"  outputs differ by max-abs {row['max_abs']:.2e}, mean-relative {row['mean_relative']:.2e}"
    yield from (f"  {line}" for line in explain.summary(session))
    yield f"  report: {report} (decisions and kernels), {data} (the same as JSON)"
