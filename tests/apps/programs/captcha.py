"""Reads short tilted words (ddddocr)."""

import inputs
from ddddocr import DdddOcr
from measure import measure

measure(
    lambda: DdddOcr(show_ad=False),
    lambda engine, content: {"texts": [engine.classification(content)]},
    [inputs.word_picture(seed) for seed in range(12)],
)
