"""Pure decisions and single doors."""
