"""Running generated code: compilation with an object cache, worker threads, and the interpreter of step tables."""
