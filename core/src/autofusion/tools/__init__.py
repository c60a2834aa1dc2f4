"""Tools that look at sessions, ledgers and plans from the side: measure, compare, explain."""
