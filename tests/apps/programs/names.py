"""Writes Arabic names in Latin letters, letter by letter (arabic-name-romanizer)."""

from arabic_name_romanizer import Transliterator
from measure import measure

PARTS = ["\u0645\u062d\u0645\u062f", "\u0639\u0628\u062f\u0627\u0644\u0643\u0631\u064a\u0645"]
LETTERS = "\u0628\u062a\u062c\u062d\u062f\u0631\u0633\u0634\u0639\u0641\u0642\u0643\u0644\u0645\u0646\u0647"


def name(seed):
    made = "".join(LETTERS[(seed * 7 + i * (seed + 3)) % len(LETTERS)] for i in range(3 + seed % 5))
    return f"{made} {PARTS[seed % 2]}"


def call(engine, text):
    found = engine.transliterate(text, top_k=3)
    return {"texts": [each.text for each in found], "scores": [each.score for each in found]}


measure(Transliterator, call, [name(seed) for seed in range(40)])
