"""AWS Lambda functions: thin handlers over `lean_ops`, one folder each."""
