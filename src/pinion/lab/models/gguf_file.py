"""The model as GGUF, architecture ``llama``, so that llama.cpp serves it."""

from __future__ import annotations

from pathlib import Path

import gguf
import numpy as np

from pinion.lab.models.network import Network
from pinion.services.onnx_model_server.tokenizer import BEGIN, END, FIRST_BYTE, FIRST_PIECE, UNKNOWN, Tokenizer

#: GGUF's names (gguf-py, constants.py) for ours; a matrix is stored with its outputs as rows.
_LAYER = {
    "attention_norm": "attn_norm",
    "query": "attn_q",
    "key": "attn_k",
    "value": "attn_v",
    "output": "attn_output",
    "feed_norm": "ffn_norm",
    "gate": "ffn_gate",
    "up": "ffn_up",
    "down": "ffn_down",
}


def write_gguf(path: Path, name: str, network: Network, tokenizer: Tokenizer) -> None:
    """Write *network* with its vocabulary to *path*: float32, little-endian, the same bytes for the same weights."""
    shape = network.shape
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_name(name)
    writer.add_file_type(gguf.LlamaFileType.ALL_F32)
    writer.add_context_length(shape.context)
    writer.add_embedding_length(shape.width)
    writer.add_block_count(shape.layers)
    writer.add_feed_forward_length(shape.feed_forward)
    writer.add_head_count(shape.heads)
    writer.add_head_count_kv(shape.heads)
    writer.add_rope_dimension_count(shape.head_width)
    writer.add_rope_freq_base(shape.rope_base)
    writer.add_layer_norm_rms_eps(shape.epsilon)
    writer.add_vocab_size(shape.vocabulary)
    _add_vocabulary(writer, tokenizer)
    weights = network.weights
    writer.add_tensor("token_embd.weight", weights["embedding"])
    for layer in range(shape.layers):
        for ours, theirs in _LAYER.items():
            writer.add_tensor(f"blk.{layer}.{theirs}.weight", np.ascontiguousarray(weights[f"{layer}.{ours}"].T))
    writer.add_tensor("output_norm.weight", weights["norm"])
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _add_vocabulary(writer: gguf.GGUFWriter, tokenizer: Tokenizer) -> None:
    """The kind ``llama``: pieces are made by their score, the highest first; bytes spell the rest."""
    tokens = range(tokenizer.size)
    kinds = {UNKNOWN: gguf.TokenType.UNKNOWN, BEGIN: gguf.TokenType.CONTROL, END: gguf.TokenType.CONTROL}
    writer.add_tokenizer_model("llama")
    writer.add_tokenizer_pre("default")
    writer.add_token_list([tokenizer.name(token) for token in tokens])
    writer.add_token_scores([float(FIRST_PIECE - token) if token >= FIRST_PIECE else 0.0 for token in tokens])
    writer.add_token_types(
        [
            kinds.get(token, gguf.TokenType.BYTE if FIRST_BYTE <= token < FIRST_PIECE else gguf.TokenType.NORMAL)
            for token in tokens
        ]
    )
    writer.add_bos_token_id(BEGIN)
    writer.add_eos_token_id(END)
    writer.add_unk_token_id(UNKNOWN)
    writer.add_add_bos_token(True)
    writer.add_add_eos_token(False)
    writer.add_add_space_prefix(False)
