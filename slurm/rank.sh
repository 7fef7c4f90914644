# What srun starts for each rank: rank.sh COMMAND... . Rank 0 writes to the job's log, the others to files of their own;
# the first that fails leaves word of it, for srun's own exit code is by chance that of one that was killed afterwards.
[ "$SLURM_PROCID" = 0 ] || exec >>"$PALIMPSEST_JOB_DIRECTORY/rank$SLURM_PROCID.log" 2>&1

# Slurm signals this shell and not what it starts (with proctrack/cgroup), which may need time to save: pass on and wait.
interrupted=no
trap 'interrupted=yes; kill -USR2 $!' USR2
trap 'interrupted=yes; kill -TERM $!' TERM
"$@" &
while
  wait $! # ended early by a trapped signal
  code=$?
  [ $interrupted = yes ]
do interrupted=no; done

set -o noclobber # a file is written once
case $code in
0) ;;
85) # It has saved after a signal. No failure, for which srun would kill the ranks that are still about to end.
  { : >"$PALIMPSEST_JOB_DIRECTORY/requeue"; } 2>/dev/null
  code=0 ;;
*) { echo "$SLURM_PROCID $(hostname) $code" >"$PALIMPSEST_JOB_DIRECTORY/first_failure"; } 2>/dev/null ;;
esac
exit $code
