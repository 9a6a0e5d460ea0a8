"""Alerts from elsewhere: what Alertmanager's webhook sends becomes conditions, whose life is that of any other."""
