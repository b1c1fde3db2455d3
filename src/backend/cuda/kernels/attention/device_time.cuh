// Times launches by replays of one graph.
#pragma once

#include "backend/cuda/kernels/attention/device_harness.cuh"

namespace bora::cuda::harness {

// Median of 7 replays of a graph of `launches` calls, us a call.
template <typename F>
double time_us(int launches, const F& launch) {
  cudaStream_t stream;
  BORA_CUDA_OK(cudaStreamCreate(&stream));
  cudaGraph_t graph;
  cudaGraphExec_t exec;
  BORA_CUDA_OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  for (int i = 0; i < launches; ++i) launch(i, stream);
  BORA_CUDA_OK(cudaStreamEndCapture(stream, &graph));
  BORA_CUDA_OK(cudaGraphInstantiate(&exec, graph, 0));
  cudaEvent_t a, b;
  BORA_CUDA_OK(cudaEventCreate(&a));
  BORA_CUDA_OK(cudaEventCreate(&b));
  std::vector<float> times;
  for (int i = 0; i < 9; ++i) {
    BORA_CUDA_OK(cudaEventRecord(a, stream));
    BORA_CUDA_OK(cudaGraphLaunch(exec, stream));
    BORA_CUDA_OK(cudaEventRecord(b, stream));
    BORA_CUDA_OK(cudaEventSynchronize(b));
    float ms = 0;
    BORA_CUDA_OK(cudaEventElapsedTime(&ms, a, b));
    if (i >= 2) times.push_back(ms);
  }
  std::sort(times.begin(), times.end());
  BORA_CUDA_OK(cudaGraphExecDestroy(exec));
  BORA_CUDA_OK(cudaGraphDestroy(graph));
  BORA_CUDA_OK(cudaStreamDestroy(stream));
  return times[times.size() / 2] * 1000.0 / launches;
}

}  // namespace bora::cuda::harness
