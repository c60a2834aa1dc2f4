"""The demo's networks: one whose time goes into large convolutions, and one of many small operators."""
