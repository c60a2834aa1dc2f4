"""Discovery of plugins: entry points to loaded packs and frontends."""
