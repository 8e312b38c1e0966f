"""Days of production on one machine: traffic whose truth is known, the real path, and what came of it compared."""
