"""The supervisor core: carries out commands on one host, safely and once, and writes down who asked."""
