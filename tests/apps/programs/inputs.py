"""Made-up pictures, pages and sounds, the same for everyone who asks with the same seed."""

from __future__ import annotations

import io

import numpy as np
from PIL import Image, ImageDraw, ImageFilter, ImageFont

RATE = 16000
WORDS = (
    "order invoice total amount street number delivery customer payment before 2024 15.90 tax account please return "
    "within fourteen days thank you for your purchase museum library harbour station quarterly report table figure "
    "result method section 48% 7,200 north south machine network kernel memory latency page volume chapter index"
).split()


def page(seed: int, size: tuple[int, int] = (720, 960), columns: int = 1) -> np.ndarray:
    """A page of lines of words in several sizes, [height, width, 3] of bytes."""
    rng = np.random.default_rng(seed)
    image = Image.new("RGB", size, "white")
    draw = ImageDraw.Draw(image)
    width = size[0] // columns
    for column in range(columns):
        y = 30 + int(rng.integers(0, 20))
        while y < size[1] - 60:
            height = int(rng.choice([18, 20, 24, 32]))
            font = ImageFont.load_default(height)
            x, right = column * width + 30, (column + 1) * width - 20
            for _ in range(int(rng.integers(2, 9))):
                word = str(rng.choice(WORDS))
                end = x + draw.textlength(word, font=font)
                if end > right:
                    break
                draw.text((x, y), word, fill=(20, 20, int(rng.integers(20, 90))), font=font)
                x = int(end) + height // 2
            y += int(height * 1.9)
    return np.asarray(image)


def word_picture(seed: int) -> bytes:
    """A few tilted characters over lines, as a PNG file."""
    rng = np.random.default_rng(seed)
    image = Image.new("RGB", (int(rng.integers(110, 220)), 64), "white")
    draw = ImageDraw.Draw(image)
    for _ in range(4):
        draw.line([tuple(rng.integers(0, 200, 2)), tuple(rng.integers(0, 64, 2))], fill=(180, 200, 190))
    for place in range(4):
        letter = Image.new("L", (44, 60), 0)
        sign = "abcdefghkmnprstuvwxyz23456789"[int(rng.integers(0, 29))]
        ImageDraw.Draw(letter).text((8, 4), sign, fill=255, font=ImageFont.load_default(40))
        letter = letter.rotate(float(rng.uniform(-15, 15)))
        image.paste((30, 30, 120), (4 + place * image.width // 4, 2), letter)
    file = io.BytesIO()
    image.save(file, "PNG")
    return file.getvalue()


def scene(seed: int, size: tuple[int, int]) -> np.ndarray:
    """Blurred figures of a head, a body and limbs on a background, [height, width, 3] of bytes."""
    rng = np.random.default_rng(seed)
    width, height = size
    noise = rng.integers(60, 200, (height // 40 + 1, width // 40 + 1, 3)).astype(np.uint8)
    image = Image.fromarray(noise).resize(size, Image.Resampling.BICUBIC)
    draw = ImageDraw.Draw(image)
    for _ in range(int(rng.integers(1, 3))):
        x, y = rng.uniform(0.25, 0.75) * width, rng.uniform(0.2, 0.35) * height
        unit = rng.uniform(0.06, 0.11) * height
        skin = tuple(int(c) for c in np.array([224, 172, 140]) + rng.integers(-25, 25, 3))
        draw.ellipse([x - unit, y - 1.3 * unit, x + unit, y + 1.3 * unit], fill=skin)
        draw.ellipse([x - 1.1 * unit, y - 1.5 * unit, x + 1.1 * unit, y - 0.5 * unit], fill=(60, 40, 30))
        for side in (-1, 1):
            eye = x + side * 0.4 * unit
            draw.ellipse([eye - 0.15 * unit, y - 0.25 * unit, eye + 0.15 * unit, y - 0.05 * unit], fill=(30, 30, 30))
        draw.ellipse([x - 0.4 * unit, y + 0.55 * unit, x + 0.4 * unit, y + 0.75 * unit], fill=(170, 80, 80))
        draw.rounded_rectangle([x - 1.8 * unit, y + 1.5 * unit, x + 1.8 * unit, y + 6 * unit], int(unit), fill=skin)
    image = image.filter(ImageFilter.GaussianBlur(1.5))
    return np.clip(np.asarray(image) + rng.normal(0, 4, (height, width, 3)), 0, 255).astype(np.uint8)


def voice(seed: int, seconds: float) -> np.ndarray:
    """Harmonics of a gliding pitch in bursts, over noise, [samples] in -1 to 1 at 16 kHz."""
    rng = np.random.default_rng(seed)
    count = int(seconds * RATE)
    t = np.arange(count) / RATE
    pitch = 120 + 60 * np.sin(2 * np.pi * rng.uniform(0.5, 1.5) * t + rng.uniform(0, 6)) + rng.uniform(0, 60)
    phase = 2 * np.pi * np.cumsum(pitch) / RATE
    sound = sum(np.sin(k * phase) / k * (1 + 0.5 * np.sin(2 * np.pi * 3 * t + k)) for k in range(1, 18))
    bursts = np.clip(3 * np.sin(2 * np.pi * rng.uniform(0.8, 2) * t + rng.uniform(0, 6)), 0, 1)
    sound = 0.25 * sound / np.max(np.abs(sound)) * bursts + 0.004 * rng.standard_normal(count)
    return sound.astype(np.float32)


def document(seed: int) -> bytes:
    """The content of a file of one of several kinds."""
    rng = np.random.default_rng(seed)
    words = [str(w) for w in rng.choice(WORDS, int(rng.integers(20, 400)))]
    match seed % 5:
        case 0:
            return " ".join(words).encode()
        case 1:
            return "".join(f"def {w}(x):\n    return x + {i}\n\n" for i, w in enumerate(words) if w.isalpha()).encode()
        case 2:
            rows = "".join(f'  <item id="{i}">{w}</item>\n' for i, w in enumerate(words))
            return f'<?xml version="1.0"?>\n<list>\n{rows}</list>\n'.encode()
        case 3:
            return "".join(f'{{"name": "{w}", "value": {i}}}\n' for i, w in enumerate(words)).encode()
    return word_picture(seed)
