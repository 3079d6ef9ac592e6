
Sample = None
