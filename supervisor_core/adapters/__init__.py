"""The outside world, one door each: processes, files, locks, the inbox, the drive."""
