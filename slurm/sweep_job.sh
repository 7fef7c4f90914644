# What a job of a sweep does around its srun (conf/sweep_launcher.py): source sweep_job.sh FOLDER
# Before: the cluster's environment, and a folder FOLDER/<job>.ranks for word of progress. When the script ends: the job
# is requeued where it was asked to save.

here=$PALIMPSEST_SCRIPTS
source "$here/job.sh" || exit 1

begin_sweep_job() {
  cpus=${SLURM_CPUS_PER_TASK:-1}
  export PALIMPSEST_JOB_DIRECTORY=$1/$SLURM_JOB_ID.ranks
  mkdir -p "$PALIMPSEST_JOB_DIRECTORY" || fail "the folder $PALIMPSEST_JOB_DIRECTORY cannot be made"
  touch "$PALIMPSEST_JOB_DIRECTORY/starts"
  rm -f "$PALIMPSEST_JOB_DIRECTORY"/{requeue,failed}
  load_environment
  choose_meeting_point
  refuse_idle_start
  begun=$(wc -l <"$PALIMPSEST_JOB_DIRECTORY/starts")
  # srun does not take it over from the job.
  export SRUN_CPUS_PER_TASK=$cpus
  unset RANK WORLD_SIZE LOCAL_RANK LOCAL_WORLD_SIZE
}

end_sweep_job() {
  local code=$1
  [ "$(wc -l <"$PALIMPSEST_JOB_DIRECTORY/starts")" -gt "$begun" ] || repeat_last_start
  if [ -e "$PALIMPSEST_JOB_DIRECTORY/requeue" ]; then
    # The number of an array's last job is that of the array, by which Slurm would name all of them.
    [ -z "${SLURM_ARRAY_JOB_ID:-}" ] || SLURM_JOB_ID=${SLURM_ARRAY_JOB_ID}_$SLURM_ARRAY_TASK_ID
    requeue "$(cat "$PALIMPSEST_JOB_DIRECTORY/requeue")"
  fi
  # submitit ends well also where the command did not.
  [ ! -e "$PALIMPSEST_JOB_DIRECTORY/failed" ] || code=1
  exit "$code"
}

begin_sweep_job "$1"
trap 'end_sweep_job $?' EXIT
