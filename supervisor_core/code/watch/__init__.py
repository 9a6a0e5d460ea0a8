"""The watch after a code change: workers are observed for a while, and their card shows the outcome."""
