"""Follows the pitch of voices of several lengths (swift-f0)."""

import inputs
from measure import measure
from swift_f0 import SwiftF0


def call(engine, sound):
    found = engine.detect(sound, inputs.RATE)
    sure = found.confidence > 0.5
    return {"hertz": found.pitch_hz[sure], "scores": found.confidence}


measure(SwiftF0, call, [inputs.voice(seed, 1.0 + 0.37 * seed) for seed in range(12)])
