"""The daemon's HTTP service: metrics, health checks, and the status page. It only reads.

`daemon` may import this folder. aiohttp and prometheus-client are imported with the first connection: a daemon that
nobody asks pays nothing for them.
"""
