"""Converters, one module a family; the table imports them all."""
