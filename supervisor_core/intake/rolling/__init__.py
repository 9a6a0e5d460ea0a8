"""Rolling changes: a command for many workers in batches, each healthy before the next one starts.

Here: the batches, the decision about the next one, its row, and what people decide. Not here: which job may start
(`jobs/rows.py`), and the work itself (`code/`).
"""
