"""The peer arm of the linear bench: the same chain of the 8B's linears through torch (cuBLASLt, tinygemm) in a CUDA graph."""
import json
import sys

import torch
import torch.nn.functional as F

SHAPES = [(6144, 4096), (4096, 4096), (28672, 4096), (4096, 14336)]
LAYERS = 32


def time_graph(fn):
    s = torch.cuda.Stream()
    with torch.cuda.stream(s):
        fn()
    torch.cuda.synchronize()
    g = torch.cuda.CUDAGraph()
    with torch.cuda.graph(g):
        fn()
    for _ in range(2):
        g.replay()
    times = []
    for _ in range(7):
        a, b = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        a.record()
        g.replay()
        b.record()
        b.synchronize()
        times.append(a.elapsed_time(b) * 1e3)
    return sorted(times)[len(times) // 2]


def chain(name, weights, call, ms, bits):
    total = sum(n * k for n, k in SHAPES) * LAYERS * bits / 8
    for m in ms:
        try:
            xs = [torch.randn(m, k, device="cuda", dtype=torch.bfloat16) for _, k in SHAPES]

            def step():
                for layer in range(LAYERS):
                    for i in range(4):
                        call(xs[i], weights[layer][i])

            us = time_graph(step)
            print(json.dumps({"what": "peer_chain", "peer": name, "m": m, "us": round(us, 1),
                              "tbs": round(total / us * 1e-6, 3)}), flush=True)
        except Exception as e:  # a peer may not support a shape
            print(json.dumps({"what": "peer_chain", "peer": name, "m": m, "error": str(e)[:200]}), flush=True)


def main():
    ms = [1, 16, 32, 64]
    w = [[torch.randn(n, k, device="cuda", dtype=torch.bfloat16) * 0.02 for n, k in SHAPES] for _ in range(LAYERS)]
    chain("torch_bf16", w, lambda x, w: F.linear(x, w), ms, 16)
    f8 = [[t.to(torch.float8_e4m3fn) for t in layer] for layer in w]
    one = torch.ones((), device="cuda")

    def fp8(x, w):
        x8 = x.to(torch.float8_e4m3fn)
        return torch._scaled_mm(x8, w.t(), scale_a=one, scale_b=one, out_dtype=torch.bfloat16)

    chain("torch_scaled_mm_fp8_a8", f8, fp8, [16, 32, 64], 8)
    del f8
    try:
        i4 = []
        for layer in w:
            row = []
            for n, k in SHAPES:
                codes = torch.randint(0, 256, (n, k // 2), dtype=torch.uint8, device="cuda")
                row.append((torch.ops.aten._convert_weight_to_int4pack(codes, 8),
                            torch.ones(k // 128, n, 2, device="cuda", dtype=torch.bfloat16) * 0.01))
            i4.append(row)
        chain("torch_tinygemm_int4_g128", i4,
              lambda x, w: torch.ops.aten._weight_int4pack_mm(x, w[0], 128, w[1]), ms, 4.25)
    except Exception as e:
        print(json.dumps({"what": "peer_chain", "peer": "tinygemm", "error": str(e)[:200]}), flush=True)


if __name__ == "__main__":
    sys.exit(main())
