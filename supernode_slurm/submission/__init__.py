"""Script and plan: what sbatch is given.

Nothing is imported here: ``options`` must stay cheap, for ``sn-submit --help``.
"""
