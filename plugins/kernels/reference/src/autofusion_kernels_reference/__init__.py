"""Every operator by the book: the slow, exact oracle."""
