"""Writes the golden files of word vectors: a model of fastText 0.9.2 with its vectors, and files of gensim 4.4.

Run in this folder: python make.py
"""

import os
import tempfile

import fasttext
import numpy as np
from gensim.models import KeyedVectors

lines = ["the café is open", "the cat sat on the mat", "a naïve student is writing"] * 3
with tempfile.TemporaryDirectory() as folder:
    text = os.path.join(folder, "text")
    with open(text, "w", encoding="utf-8") as file:
        file.write("\n".join(lines))
    model = fasttext.train_unsupervised(text, dim=3, minCount=1, bucket=60, epoch=50, thread=1, verbose=0)
model.save_model("fasttext.bin")
with open("fasttext.vectors", "w", encoding="utf-8") as file:
    for word in ["the", "café", "naïve", "cats", "unseen", "Straße", "x"]:
        print(word, *(f"{x:.8f}" for x in model.get_word_vector(word)), file=file)

vectors = KeyedVectors(3)
numbers = np.random.default_rng(1).normal(size=(4, 3)).astype(np.float32)
vectors.add_vectors(["the", "café", "cat", "New_York"], numbers)
vectors.save_word2vec_format("gensim.txt", binary=False)
vectors.save_word2vec_format("gensim.bin", binary=True)
