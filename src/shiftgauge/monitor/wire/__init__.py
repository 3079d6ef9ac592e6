"""What comes over the wire, checked at the door: bodies of JSON, Arrow or Parquet become columns."""
