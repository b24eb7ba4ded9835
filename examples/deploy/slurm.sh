#!/bin/bash
# A run that saves before its time limit and is queued again: docs/how_to/several_gpus.md.
#SBATCH --job-name=pretrain
#SBATCH --time=04:00:00
#SBATCH --signal=B:USR1@300
#SBATCH --requeue
#SBATCH --open-mode=append

signalled=
trap 'signalled=yes; kill -USR1 "$run"' USR1

xlnet pretrain --config=run.json &
run=$!
wait "$run"
status=$?
while kill -0 "$run" 2> /dev/null; do       # a signal interrupts wait, not the run
    wait "$run"
    status=$?
done
if [ -n "$signalled" ] && [ "$status" -eq 75 ]; then
    scontrol requeue "$SLURM_JOB_ID"
fi
exit "$status"
