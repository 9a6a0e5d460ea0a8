"""Alerts from Alertmanager's webhook. They become conditions and are handled like any other."""
