#!/bin/sh
# Written by 'sn generate' for cluster fullmesh64 and Slurm 26.05.
# Do not edit: change the inventory and generate again.
# What this prints, Slurm sets for the task (TaskProlog in slurm.conf(5)). Devices are
# numbered as Slurm does: those of one GRES name in a node, from 0, without gaps.

say() { # say DEVICES VARIABLE...
    devices=$1
    shift
    case $devices in
    '' | *[!0-9,]*) return 0 ;; # none, or not Slurm's own words
    esac
    for name; do printf 'export %s=%s\n' "$name" "$devices"; done
}

gpu=${SLURM_STEP_GPUS-}
case "${SLURM_STEP_ID-}" in # of a batch script: none, or below 0, or as high when unsigned
'' | -* | 42949*) gpu=${gpu:-${SLURM_JOB_GPUS-}} ;;
esac

say "$gpu" MACA_VISIBLE_DEVICES
