"""Make supernodes of mixed accelerators usable through Slurm."""

__version__ = "0.1.0"
