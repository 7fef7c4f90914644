"""What DeepSpeed 0.19 does with the gradient of a parameter that only some micro-batches use, put right.

At stage 3, and at every stage with the optimiser on the CPU, gradients live in buffers that outlast a step, and only
the gradients that arrive are written: a parameter that a step does not use would be updated by its last gradient once
more, and one that only the last micro-batch does not use would lose what came before. Must not import the engine.
"""

from typing import Any


def forget_last_step(wrapped: Any, stage: int, offloaded: bool) -> None:
    """Zero the buffers of DeepSpeed's optimiser that outlast a step; call it before a step's first backward pass."""
    if stage == 3:
        wrapped.grad_partitions_flat_buffer.zero_()
    elif offloaded:
        for buffer in wrapped.accumulated_grads_in_cpu.values():
            buffer.zero_()
    if offloaded:
        slices = wrapped.fp32_partitioned_groups_flat if stage == 3 else wrapped.single_partition_of_fp32_groups
        for flat in slices:
            flat.grad.zero_()


def hand_over_accumulated(wrapped: Any, stage: int) -> None:
    """Give the CPU's optimiser the gradients that came before the last micro-batch only; call it after that one."""
    accumulated = wrapped._offload_boundary_param_ids if stage == 3 else wrapped._offload_accumulated_param_ids
    # A parameter's norm is noted when its gradient is handed over.
    if accumulated - wrapped.norm_for_param_grads.keys():
        wrapped.finalize_gradient_accumulation_boundary()
