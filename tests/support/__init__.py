"""What tests share: servers, homes, crash points armed from outside."""
