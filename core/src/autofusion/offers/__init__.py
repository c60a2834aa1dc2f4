"""Kernel packs as the engine asks them: guarded, filtered by the user's switches, priced. See ``offers.ask``."""
