Sample = None
