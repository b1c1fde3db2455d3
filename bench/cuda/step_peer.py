"""The peer arm of step_bench: the same decode steps in torch (cuBLAS, SDPA) in one CUDA graph, the token fed back on the
device. JSON lines as step_bench prints them."""
import json
import math
import sys

import torch
import torch.nn.functional as F

SHAPES = {
    "1b": (16, 2048, 32, 8, 64, 8192, 128256),
    "8b": (32, 4096, 32, 8, 128, 14336, 128256),
    "7b": (28, 3584, 28, 4, 128, 18944, 152064),
}
STEPS, WARM_UP, REPEAT = 127, 5, 5


def weight(n, k):
    return (torch.randn(n, k, device="cuda", dtype=torch.bfloat16) / math.sqrt(k)).contiguous()


class Model:
    def __init__(self, shape):
        layers, dim, q, kv, head, ffn, vocab = shape
        self.layers = [
            {"qkv": weight((q + 2 * kv) * head, dim), "o": weight(dim, q * head), "gate_up": weight(2 * ffn, dim),
             "down": weight(dim, ffn), "norm1": torch.ones(dim, device="cuda", dtype=torch.bfloat16),
             "norm2": torch.ones(dim, device="cuda", dtype=torch.bfloat16)} for _ in range(layers)]
        self.head = weight(vocab, dim)
        self.embedding = weight(vocab, dim)
        self.norm = torch.ones(dim, device="cuda", dtype=torch.bfloat16)
        self.bytes = 2 * (self.head.numel() + sum(w.numel() for x in self.layers for k, w in x.items() if "norm" not in k))


def rotate(x, cos, sin):
    a, b = x.chunk(2, -1)
    return torch.cat((a * cos - b * sin, b * cos + a * sin), -1)


def time_steps(name, model, rows, context):
    layers, dim, q, kv, head, ffn, vocab = SHAPES[name]
    most = context + STEPS + WARM_UP + 4
    caches = [torch.randn(2, rows, kv, most, head, device="cuda", dtype=torch.bfloat16) for _ in range(layers)]
    ids = torch.zeros(rows, device="cuda", dtype=torch.long)
    pos = torch.full((1,), context - 1, device="cuda", dtype=torch.long)
    angles = torch.outer(torch.arange(most, device="cuda").float(), 5e5 ** (-torch.arange(0, head, 2, device="cuda").float() / head))
    cos, sin = angles.cos().bfloat16(), angles.sin().bfloat16()
    keys = torch.arange(most, device="cuda")

    def step():
        h = F.embedding(ids, model.embedding)
        c, s = cos[pos].view(1, 1, -1), sin[pos].view(1, 1, -1)
        mask = (keys <= pos).view(1, 1, 1, -1)
        for layer, cache in zip(model.layers, caches):
            x = F.linear(F.rms_norm(h, (dim,), layer["norm1"], 1e-5), layer["qkv"])
            x = x.view(rows, q + 2 * kv, head)
            query = rotate(x[:, :q], c, s).unsqueeze(2)
            cache[0].index_copy_(2, pos, rotate(x[:, q:q + kv], c, s).unsqueeze(2))
            cache[1].index_copy_(2, pos, x[:, q + kv:].unsqueeze(2))
            y = F.scaled_dot_product_attention(query, cache[0], cache[1], attn_mask=mask, enable_gqa=True)
            h = h + F.linear(y.reshape(rows, q * head), layer["o"])
            g, u = F.linear(F.rms_norm(h, (dim,), layer["norm2"], 1e-5), layer["gate_up"]).chunk(2, -1)
            h = h + F.linear(F.silu(g) * u, layer["down"])
        ids.copy_(F.linear(F.rms_norm(h, (dim,), model.norm, 1e-5), model.head).argmax(-1))
        pos.add_(1)

    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        step()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    times = []
    for _ in range(REPEAT):
        pos.fill_(context - 1)
        for _ in range(WARM_UP):
            graph.replay()
        a, b = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        a.record()
        for _ in range(STEPS):
            graph.replay()
        b.record()
        b.synchronize()
        times.append(a.elapsed_time(b) * 1e3 / STEPS)
    us = sorted(times)[REPEAT // 2]
    print(json.dumps({"what": "peer", "peer": "torch " + torch.__version__ + " cuBLAS + SDPA in a graph", "model": name,
                      "recipe": "bf16", "sequences": rows, "context": context, "us": round(us, 1),
                      "tbs": round(model.bytes / us * 1e-6, 3)}), flush=True)


def main():
    for name in sys.argv[1:] or ["1b", "8b"]:
        with torch.no_grad():
            model = Model(SHAPES[name])
            for rows, context in [(1, 64), (1, 2048), (16, 128), (64, 128)]:
                time_steps(name, model, rows, context)
            del model
            torch.cuda.empty_cache()


main()
