"""The embedded stack: what AWS provides, emulated on loopback, so that the real handlers run anywhere."""
