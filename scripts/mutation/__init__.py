"""Break the code on purpose, one place at a time, and see whether a test notices.

Ours, because the tools at hand do not fit. mutmut 3.8 stops at once with pytest 9.2 (it reads an attribute that items
no longer have) and rewrites every function into a trampoline. cosmic-ray 8.7 runs, but writes each mutant into the
source file and starts a new interpreter for each. Neither has a sample, and neither drops an argument, a weight or an
order, which is what our tests used to miss. Here a mutant lives only in the memory of a forked process that has numpy,
scipy, numba and pytest loaded already, and meets only tests that run the broken function, quickest first.
"""
