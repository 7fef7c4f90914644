# What the batch scripts of this folder share: each sources this file and calls `run_job`.
#
# Rank 0 writes to the job's log, <name>-<job>.log. Beside it lies the folder <name>-<job>.ranks:
#   rank1.log ...   what the other ranks write
#   starts          where each start of this job began: how much was done by then
#   requeue         the marker: the ranks have saved and stopped, the job is to be requeued
#   first_failure   the rank that failed first, its host and its exit code

# So many starts in a row may come to an end without progress.
max_idle_starts=${MAX_IDLE_STARTS:-3}

fail() {
  echo "error: $*" >&2
  exit 1
}

# run_job MODULE [OPTION...]: `python -m MODULE OPTION...`, one task for each GPU, on all nodes of the job.
run_job() {
  count_tasks
  run_tasks "$@"
}

# run_alone MODULE [OPTION...]: the same as one task with all CPUs of one node.
run_alone() {
  [ "$SLURM_JOB_NUM_NODES" = 1 ] || fail "$1 runs on one node, but the job has $SLURM_JOB_NUM_NODES: give --nodes=1"
  tasks=1 tasks_per_node=1 cpus=$SLURM_CPUS_ON_NODE
  run_tasks "$@"
}

count_tasks() {
  local gpus=${SLURM_GPUS_PER_NODE:-1}
  gpus=${gpus##*:} # h100:8
  [ "$gpus" -gt 0 ] || gpus=1
  tasks_per_node=${SLURM_NTASKS_PER_NODE:-$gpus}
  tasks=$((tasks_per_node * SLURM_JOB_NUM_NODES))
  cpus=$((SLURM_CPUS_ON_NODE / tasks_per_node))
  [ "$cpus" -gt 0 ] || fail "each of the $tasks_per_node tasks on a node needs a CPU, but the job has" \
    "$SLURM_CPUS_ON_NODE there: give --cpus-per-gpu=8, or --exclusive"
}

run_tasks() {
  local module=$1 interrupted=no begun code
  shift
  open_job_directory
  load_environment
  choose_meeting_point
  refuse_idle_start
  begun=$(wc -l <"$PALIMPSEST_JOB_DIRECTORY/starts")
  [ "$module" = pretrain ] || work_done "$@" >>"$PALIMPSEST_JOB_DIRECTORY/starts"
  echo "job $SLURM_JOB_ID, start $((${SLURM_RESTART_COUNT:-0} + 1)): $tasks tasks with $cpus CPUs each on" \
    "$SLURM_JOB_NODELIST; logs of other ranks in $PALIMPSEST_JOB_DIRECTORY"
  # By the rank's own variables below, and by nothing that the submitting shell may have had.
  unset RANK WORLD_SIZE LOCAL_RANK LOCAL_WORLD_SIZE
  # The tasks are counted above. What sbatch was given for CPUs would contradict --cpus-per-task, which srun does not
  # take over from the job.
  unset SLURM_CPUS_PER_GPU SLURM_NTASKS SLURM_NPROCS SLURM_NTASKS_PER_NODE SLURM_TRES_PER_TASK
  # The ranks get a signal of their own; this script must outlive its one to requeue the job.
  trap 'interrupted=yes' TERM USR2
  # Without --kill-on-bad-exit the others would wait for a rank that has died.
  srun --nodes="$SLURM_JOB_NUM_NODES" --ntasks="$tasks" --ntasks-per-node="$tasks_per_node" --cpus-per-task="$cpus" \
    --kill-on-bad-exit=1 "${srun_options[@]}" bash "$here/rank.sh" "${wrapper[@]}" python -m "$module" "$@" &
  while
    wait $! # ended early by a trapped signal
    code=$?
    [ $interrupted = yes ]
  do interrupted=no; done
  [ "$(wc -l <"$PALIMPSEST_JOB_DIRECTORY/starts")" -gt "$begun" ] || repeat_last_start
  # A rank that the signal killed had not begun, or is of a command that has nothing to save: what is finished is kept.
  if [ -e "$PALIMPSEST_JOB_DIRECTORY/requeue" ] || killed_by_request; then
    if [ "$module" != pretrain ]; then
      requeue "$(work_done "$@")"
    elif [ -s "$PALIMPSEST_JOB_DIRECTORY/requeue" ]; then
      requeue "$(cat "$PALIMPSEST_JOB_DIRECTORY/requeue")"
    else
      requeue "$(tail -n 1 "$PALIMPSEST_JOB_DIRECTORY/starts")"
    fi
  fi
  [ $code != 0 ] || exit 0
  show_first_failure $code
  exit $code
}

open_job_directory() {
  local log
  log=$(scontrol show job "$SLURM_JOB_ID" | sed -n 's/^ *StdOut=//p')
  [ -f "$log" ] || log=$SLURM_SUBMIT_DIR/$SLURM_JOB_NAME-$SLURM_JOB_ID.log
  export PALIMPSEST_JOB_DIRECTORY=${log%.*}.ranks
  mkdir -p "$PALIMPSEST_JOB_DIRECTORY" || fail "the folder $PALIMPSEST_JOB_DIRECTORY cannot be made"
  touch "$PALIMPSEST_JOB_DIRECTORY/starts"
  rm -f "$PALIMPSEST_JOB_DIRECTORY"/{requeue,first_failure}
}

# Modules, container, environment: a file that `python -m slurm.submit render=cluster.env cluster=...` has written.
load_environment() {
  local file
  srun_options=() wrapper=()
  export SLURM_CPUS_PER_TASK=$cpus OMP_NUM_THREADS=$cpus
  # The code that lies beside these scripts, wherever the job was submitted from.
  export PYTHONPATH=$(dirname "$here")${PYTHONPATH:+:$PYTHONPATH}
  [ -z "${CLUSTER_ENV:-}" ] || [ -f "$CLUSTER_ENV" ] || fail "CLUSTER_ENV names $CLUSTER_ENV, which is not there"
  for file in "${CLUSTER_ENV:-}" "$SLURM_SUBMIT_DIR/cluster.env" "$(dirname "$here")/cluster.env"; do
    if [ -f "$file" ]; then
      echo "environment: $file"
      source "$file" || fail "the environment $file could not be set up"
      return
    fi
  done
  echo "environment: that of the shell which submitted the job, for there is no cluster.env"
}

# The ranks meet on the first node, where rank 0 and this script run. Jobs that share a node have different numbers, and
# so different ports; one that is taken by anything else is passed over.
choose_meeting_point() {
  local try=0
  MASTER_ADDR=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
  MASTER_PORT=$((20000 + SLURM_JOB_ID % 10000))
  while [ $try -lt 100 ] && grep -qi ":$(printf %04x "$MASTER_PORT") " <(awk '{print $2 " "}' /proc/net/tcp*); do
    try=$((try + 1))
    MASTER_PORT=$((20000 + (MASTER_PORT - 20000 + 7919) % 10000))
  done
  export MASTER_ADDR MASTER_PORT
}

# How much a command without steps has done: a sum over its finished files, which lie under the option `output`.
work_done() {
  local option output=
  for option; do
    case $option in output=*) output=${option#output=} ;; esac
  done
  [ -n "$output" ] || output=.
  echo "output $(find "$output" -type f ! -name '.*' -printf '%P %s\n' 2>/dev/null | sort | cksum)"
}

repeat_last_start() {
  (tail -n 1 "$PALIMPSEST_JOB_DIRECTORY/starts" | grep . || echo "step 0") >>"$PALIMPSEST_JOB_DIRECTORY/starts"
}

# A job that Slurm requeues (a node was lost), again and again, without any progress.
refuse_idle_start() {
  local starts=$PALIMPSEST_JOB_DIRECTORY/starts
  if [ "$(wc -l <"$starts")" -gt "$max_idle_starts" ] &&
    [ "$(tail -n $((max_idle_starts + 1)) "$starts" | sort -u | wc -l)" = 1 ]; then
    fail "the last $((max_idle_starts + 1)) starts of this job all began at the same point ($(tail -n 1 "$starts")):" \
      "it is not started again. Mend what ends it, remove $starts, and submit or requeue it"
  fi
}

# A rank died of the signal that asks it to stop: USR2 (128 + 12) or TERM (128 + 15).
killed_by_request() {
  [ -e "$PALIMPSEST_JOB_DIRECTORY/first_failure" ] && grep -qE ' (140|143)$' "$PALIMPSEST_JOB_DIRECTORY/first_failure"
}

# requeue DONE: requeue this job, unless it was cancelled or its last starts have brought nothing. DONE is how much is
# done by now, as the file `starts` has it.
requeue() {
  local state try starts=$PALIMPSEST_JOB_DIRECTORY/starts
  # The exit code says nothing to Slurm: a job that saves and ends in the grace time of a preemption would count as
  # complete, and those that depend on it would start.
  for try in $(seq 24); do
    state=$(squeue --noheader --jobs="$SLURM_JOB_ID" --format=%T) && break
    sleep 5 # the controller may be away for a while
  done
  if [ "$state" != RUNNING ]; then
    echo "stopped at $1; not requeued, for the job is ${state:-gone}: submitted again, the same command goes on"
    exit 1
  fi
  if [ "$(wc -l <"$starts")" -ge "$max_idle_starts" ] &&
    [ "$(tail -n "$max_idle_starts" "$starts" | sort -u)" = "$1" ]; then
    fail "no progress in the last $max_idle_starts starts of this job, which all began and ended at $1: it is not" \
      "requeued. Give it more time (--time), or look above for what takes it; then submit it again"
  fi
  echo "stopped at $1; requeued, to go on from there"
  for try in $(seq 24); do
    if scontrol requeue "$SLURM_JOB_ID"; then
      trap - TERM USR2
      sleep 600 # Slurm ends this script here; to go on would race with that
    fi
    sleep 5
  done
  fail "Slurm did not requeue this job; submitted again, the same command goes on"
}

show_first_failure() {
  local rank host code
  if ! read -r rank host code 2>/dev/null <"$PALIMPSEST_JOB_DIRECTORY/first_failure"; then
    echo "error: the step ended with exit code $1, and no rank left word: it was killed from outside, or its node was" \
      "lost (the lines above say which)" >&2
    return
  fi
  [ "$code" != 137 ] || code="137 (killed; if by the kernel, for want of memory)"
  echo "error: rank $rank on $host was the first to fail, with exit code $code; its last lines$(
    [ "$rank" = 0 ] && echo " are above" || echo ":"
  )" >&2
  [ "$rank" = 0 ] || tail -n 30 "$PALIMPSEST_JOB_DIRECTORY/rank$rank.log" | sed 's/^/    /' >&2
}
