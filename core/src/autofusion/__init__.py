"""Graph auto-fusion for trained models."""
