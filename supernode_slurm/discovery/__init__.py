"""From what is there to an inventory: files of Slurm, a running Slurm, models of other tools."""
