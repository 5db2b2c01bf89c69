"""Recorded runs against the planner's predictions, and constants fitted to them."""
