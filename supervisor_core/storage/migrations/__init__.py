"""The migrations, oldest first. A released one never changes. Those before 0022 were never released."""
