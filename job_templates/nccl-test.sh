#!/bin/bash
# The bandwidth between the cards, by nccl-tests.
#
# all_reduce_perf must be built with MPI=1: else each process measures alone. Nothing is
# trained, so the job is placed and not planned.
#SBATCH --job-name=nccl-test
#SBATCH --time=15
#SBATCH --output=%x-%j.out
#SN --cards h100:16
set -eu

# What its MPI speaks; 'srun --mpi=list' shows what Slurm offers.
MPI=pmix
PATH=$HOME/nccl-tests/build:$PATH

sn-launch --srun=--mpi="$MPI" all_reduce_perf -b 8 -e 8G -f 2 -g 1
