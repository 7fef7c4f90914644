"""From shard rows to batches: which rows make a batch, and how rows become flat tokens."""
