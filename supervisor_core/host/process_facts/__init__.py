"""Facts about operating-system processes, and signals to one of them: psutil, and Linux's own ways.

Starting and stopping workers belongs to `processes`.
"""
