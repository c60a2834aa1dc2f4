"""One self-contained HTML page of a model before and after fusion, for reading with eyes instead of grep."""
