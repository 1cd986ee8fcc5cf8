"""Hypothesis runs these tests the same way every time; the shared machines of CI are too slow for its deadline."""

from hypothesis import settings

settings.register_profile("schedule", deadline=None, derandomize=True, print_blob=False)
settings.load_profile("schedule")
