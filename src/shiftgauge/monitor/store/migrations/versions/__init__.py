"""One file per step; a released one is never changed."""
