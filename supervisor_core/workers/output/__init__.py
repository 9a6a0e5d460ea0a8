"""The output of workers on its way to the drive, piece by piece, as the daemon and passes deliver it."""
