"""``autofusion demo``: one network unfused and fused, with the gain, the proof and the list of decisions."""

from __future__ import annotations

from pathlib import Path

import click


@click.command("demo")
@click.option("--threads", type=int, help="Threads to run on. Default: all cores this process may use.")
@click.option(
    "--output",
    "-o",
    type=click.Path(path_type=Path),
    default=Path("autofusion-demo"),
    show_default=True,
    help="Folder for the model and the report.",
)
@click.option("--seconds", default=6.0, show_default=True, help="Time to measure for.")
def command(threads: int | None, output: Path, seconds: float) -> None:
    """Run ResNet-18 (random weights, normalisations as separate nodes) at level off and at level full.

    Prints the latencies and their ratio, how far the outputs are apart, and what was decided; writes the model and the
    full report to a folder. Needs no network.
    """
    import json

    from rich.console import Console

    import autofusion
    from autofusion.errors import PluginError
    from autofusion.plugins.frontend import Exporter
    from autofusion.plugins.registry import default_registry
    from autofusion.tools import explain, versus
    from autofusion.tools.demo import network

    console = Console(stderr=True)
    output.mkdir(parents=True, exist_ok=True)
    model = output / "resnet18.onnx"
    with console.status("writing the model"):
        frontend = default_registry().frontend("onnx")
        if not isinstance(frontend, Exporter):
            raise PluginError("the installed ONNX frontend cannot write models; upgrade autofusion-frontend-onnx")
        frontend.export(network(), model, inline=True)
    with console.status("compiling, then measuring level off and full in turns"):
        row = versus.measure(model, {}, ("off", "full"), (), seconds, {"threads": threads})
    session = autofusion.compile(model, threads=threads)
    report, data = output / "report.txt", output / "report.json"
    report.write_text("\n".join([*versus.row_lines(row), "", *explain.whole(session)]) + "\n", encoding="utf-8")
    data.write_text(json.dumps({"bench": row, **explain.as_data(session)}, indent=2), encoding="utf-8")
    off, full = row["contenders"]["off"], row["contenders"]["full"]
    click.echo(
        f"ResNet-18, 1x3x224x224, {row['threads']} threads, every node of the ONNX file alone (off) and fused (full)"
    )
    click.echo(f"  latency off   median {1e3 * off['median']:7.2f} ms   minimum {1e3 * off['minimum']:7.2f} ms")
    click.echo(f"  latency full  median {1e3 * full['median']:7.2f} ms   minimum {1e3 * full['minimum']:7.2f} ms")
    click.echo(f"  fused is {off['ratio_median']:.2f}x as fast (minimum against minimum {off['ratio_minimum']:.2f}x)")
    click.echo(f"  outputs differ by max-abs {row['max_abs']:.2e}, mean-relative {row['mean_relative']:.2e}")
    click.echo("  " + "\n  ".join(explain.summary(session)))
    click.echo(f"report: {report} (decisions and kernels), {data} (the same as JSON)")
