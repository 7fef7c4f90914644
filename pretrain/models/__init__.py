"""Models on flat, packed tokens: attention, encoder, encoder-decoder, heads, and their way to and from Hugging Face.

Nothing here knows of data sets, objectives, optimisers or DeepSpeed.
"""
