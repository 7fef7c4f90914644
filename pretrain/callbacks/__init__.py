"""What surrounds the training loop, one thing a file: see `pretrain.trainer.Callback`."""
