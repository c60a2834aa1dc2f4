"""Text lines to read: words rendered in a common font, as the recogniser of PP-OCR wants them."""

from __future__ import annotations

from pathlib import Path

import numpy as np

HEIGHT, WIDTH = 48, 320
WORDS = (
    "fusion", "kernel", "graph", "Tensor", "layout", "matrix", "vector", "output", "stride", "channel", "batch",
    "weights", "model", "speed", "cache", "thread", "border", "epilogue", "Winograd", "softmax", "anchor", "region",
    "rule", "planner", "ledger", "replay", "verify", "bisect", "profile", "memory", "lower", "bound", "shape",
)  # fmt: skip


def lines(count: int, seed: int = 0) -> list[str]:
    """``count`` different lines of words and numbers."""
    random = np.random.default_rng(seed)
    made: dict[str, None] = {}
    while len(made) < count:
        words = [str(random.choice(WORDS)), str(random.choice(WORDS)), str(random.integers(10, 9999))]
        made[" ".join(words[: int(random.integers(1, 4))])] = None
    return list(made)


def render(text: str, seed: int) -> np.ndarray:
    """``[1, 3, 48, 320]`` in -1..1: dark text on light paper, of varying size, place and contrast, with some noise."""
    from PIL import Image, ImageDraw, ImageFont

    random = np.random.default_rng(seed)
    font = ImageFont.load_default(int(random.integers(24, 34)))
    paper, ink = int(random.integers(205, 256)), int(random.integers(0, 90))
    image = Image.new("L", (WIDTH * 3, HEIGHT), paper)
    draw = ImageDraw.Draw(image)
    left, top, right, bottom = draw.textbbox((0, 0), text, font=font)
    at = (6 - left + int(random.integers(0, 6)), (HEIGHT - (bottom - top)) // 2 - top + int(random.integers(-2, 3)))
    draw.text(at, text, fill=ink, font=font)
    used = min(image.width, int(at[0] + right + 8))
    image = image.crop((0, 0, used, HEIGHT))
    if used > WIDTH:
        image = image.resize((WIDTH, HEIGHT), Image.Resampling.BILINEAR)
    pixels = np.full((HEIGHT, WIDTH), float(paper), np.float32)
    pixels[:, : image.width] = np.asarray(image, np.float32)
    pixels += random.normal(0, 4, pixels.shape).astype(np.float32)
    normal = np.clip(pixels, 0, 255) / 127.5 - 1
    return np.repeat(normal[None, None], 3, axis=1).astype(np.float32)


def charset(model: Path) -> list[str]:
    """The characters of the recogniser's classes, as its file says."""
    import onnx

    for entry in onnx.load(model).metadata_props:
        if entry.key == "character":
            return entry.value.splitlines()
    raise AssertionError(f"'{model}' does not say its characters")


def write(folder: Path, model: Path, count: int, name: str = "x") -> Path:
    """A data set for ``verify``: a sample a line, and the charset."""
    folder.mkdir(parents=True, exist_ok=True)
    for number, text in enumerate(lines(count)):
        np.savez(folder / f"line{number:04}.npz", **{name: render(text, number), "text": np.array(text)})
    (folder / "charset.txt").write_text("\n".join(charset(model)) + "\n", encoding="utf-8")
    return folder
