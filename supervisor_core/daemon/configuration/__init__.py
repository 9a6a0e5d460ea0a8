"""The running configuration: its files watched, versions applied or refused, each recorded."""
