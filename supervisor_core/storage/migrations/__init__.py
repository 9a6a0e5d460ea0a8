"""The migrations, oldest first. A released one never changes.

The next one is 0017: 0002 to 0016 were never released.
"""
