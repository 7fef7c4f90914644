"""Models on flat, packed tokens: attention, encoder, heads, and their way to and from Hugging Face folders.

Nothing here knows of data sets, objectives, optimisers or DeepSpeed.
"""
