"""The machine: files, locks, programs, disks, the shared drive, the web, and the log.

Nothing here knows workers, the ledger or the configuration. The drive is reached through `drive_files.py` alone.
"""
