"""At most how wrong: a ceiling for the error, and whether it is within a margin of the source's."""
