#!/bin/sh
# Written by 'sn generate' for cluster torus and Slurm 24.11.
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

# Slurm tells a task nothing of a GRES that is not named gpu. slurmctld knows what the job
# holds on this node, and nobody which of these a step has that asked for fewer.
held() ( # held GRES
    list=''
    while read -r nodes rest; do # like Nodes=n[1-2] CPU_IDs=0 Mem=0 GRES=npu:x:3(IDX:0-1,4)
        case "$nodes $rest" in
        Nodes=?*" GRES="*) ;;
        *) continue ;;
        esac
        scontrol show hostnames "${nodes#Nodes=}" | grep -qxF "$SLURMD_NODENAME" || continue
        IFS=')'
        for part in ${rest##*GRES=}; do
            part=${part#,}
            [ "${part#"$1":}" != "$part" ] || continue
            IFS=,
            for range in ${part##*IDX:}; do
                case $range in
                '' | *[!0-9-]* | -* | *- | *-*-*) continue ;;
                esac
                index=${range%-*}
                while [ "$index" -le "${range#*-}" ]; do
                    list=$list,$index
                    index=$((index + 1))
                done
            done
        done
        unset IFS
    done <<EOF
$(scontrol --details show job "$SLURM_JOB_ID")
EOF
    echo "${list#,}"
)

say "$(held dcu)" HIP_VISIBLE_DEVICES
