"""Listens for wake words, 80 ms at a time (openwakeword)."""

import inputs
import numpy as np
from measure import measure
from openwakeword.model import Model

sound = (inputs.voice(1, 100 * 1280 / inputs.RATE) * 32767).astype(np.int16)


def call(engine, chunk):
    found = engine.predict(chunk)
    return {"texts": sorted(found), "scores": [found[name] for name in sorted(found)]}


measure(Model, call, list(sound.reshape(100, 1280)))
