"""Flag files from the drive: checked, filed as jobs or rejected, each exactly once."""
