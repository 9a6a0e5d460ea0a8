"""Facts about operating-system processes, and signals to one of them, through psutil on every system.

Starting and stopping workers belongs to `processes`. Windows, macOS and the BSDs have never run this. On Windows a
process is asked to end with CTRL_BREAK, which reaches only its own process group, and then terminated.
"""
