from pretrain.ranks import Ranks, from_environment


def test_torchrun_and_srun_give_the_same_place():
    torchrun = {"RANK": "5", "WORLD_SIZE": "8", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "4"}
    srun = {
        "SLURM_PROCID": "5",
        "SLURM_STEP_NUM_TASKS": "8",
        "SLURM_LOCALID": "1",
        "SLURM_STEP_TASKS_PER_NODE": "4(x2)",
    }
    assert from_environment(torchrun) == from_environment(srun) == Ranks(5, 8, 1, 4)


def test_alone_or_inside_a_batch_script_a_process_is_no_rank():
    assert from_environment({}) is None
    assert from_environment({"SLURM_JOB_ID": "7", "SLURM_PROCID": "0"}) is None
