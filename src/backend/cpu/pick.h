// Picking a token from a row of logits, as ir/pick.h says. A pick is a pure function of (logits row, history, params,
// position); it is computed by one worker in one order whatever the level, the team or the other rows.
//
// Numbers: logits and their changes are float32; exponentials float32 (relative error below 3e-7), their sums and
// every decision between sums float64. Penalties are recomputed from the history: exact after truncation and
// repetition.
//
// How a row of 256k is kept cheap: a maximum by blocks, one pass for the sum where the mass is asked for, and a list
// of the elements above a floor that no later processor can go below; order is found inside that list alone, by
// selecting and never by sorting all. The draw adds weights by ascending id.
//
// Mirostat's mu is the one thing that a history does not hold: it is kept by position, and 2 * tau where the tokens
// were given by the host and were not picked here.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "device/device.h"

namespace bora::cpu {

constexpr int32_t kMaxAlternatives = 128;  // logprobs of a row

// Where everything lies, in bytes from the beginning of one region; exact.
struct PickPlan {
  int32_t vocab = 0, positions = 0, slots = 0, rows = 0, workers = 0, steps = 0;
  int64_t tokens = 0;   // int32 [slots, positions + 1]
  int64_t mu = 0;       // Surprise [slots, positions + 2]
  int64_t results = 0;  // PickedRow [steps, rows]
  int64_t top = 0;      // TokenLogprob [steps, rows, kMaxAlternatives]
  int64_t scratch = 0;  // [workers], scratch_bytes each
  int64_t scratch_bytes = 0;
  int64_t bytes = 0;  // a multiple of 4096; 0 without slots
};
PickPlan plan_picks(int32_t vocab, int32_t positions, const device::Bounds& bounds, int32_t workers);

// Mirostat's mu before the pick of a position; owner 0: unknown.
struct Surprise {
  float mu = 0;
  uint32_t owner = 0;
};

struct Candidate {
  float x = 0, w = 0;  // the processed logit; exp((x - greatest) / temperature)
  int32_t id = 0;
};

// One worker's buffers.
struct PickScratch {
  float* x = nullptr;          // [vocab] processed logits
  int32_t* counts = nullptr;   // [vocab], zero between uses
  int32_t* ids = nullptr;      // [vocab]
  float* weights = nullptr;    // [vocab]
  Candidate* list = nullptr;   // [vocab], ascending ids
  Candidate* order = nullptr;  // [vocab]
  float* block_max = nullptr;  // [blocks]
  double* sums = nullptr;      // [blocks]
  int32_t* suffix = nullptr;   // [positions + 1]
};
PickScratch pick_scratch(const PickPlan& plan, std::byte* region, int32_t worker);

struct PickInput {
  const float* logits = nullptr;  // [vocab], not written
  int32_t vocab = 0;
  std::span<const int32_t> history;  // the choice's tokens below position
  int32_t prompt = 0;
  const uint32_t* mask = nullptr;  // [ceil(vocab / 32)] or null
  const ir::PickParams* params = nullptr;
  float mu = 0;  // mirostat's
};
// The token, -1 if there is none to pick; with mirostat, the mu of the next position in *next_mu.
int32_t pick_token(const PickInput& in, const PickScratch& s, float* next_mu);
// Log-probability and rank of `id` among the raw logits; the best `count` of them into top, best first (ties: the
// smallest id). Returns how many there were.
int32_t pick_logprobs(const PickInput& in, const PickScratch& s, int32_t id, int32_t count, device::PickedRow* row,
                      device::TokenLogprob* top);

// Do these params read the history?
bool reads_history(const ir::PickParams& p);

// pick_filters.cc: changes of single logits before the draw. True if s.x was filled; else in.logits stands.
bool apply_logit_changes(const PickInput& in, const PickScratch& s);

// The histories of a program and its checks. Two owners: `check` and `note_launched` belong to the driver, `run_row`
// to the workers of the executor (rows of a step name different slots, so they never meet).
class Picker {
 public:
  Picker() = default;
  Picker(const PickPlan& plan, std::byte* region);

  // The driver's side: numbers of a step's picks, against what was launched before it.
  Status check(std::span<const device::PickRow> picks, std::span<const uint32_t> masks, size_t rows);
  void note_launched(std::span<const device::PickRow> picks);

  // The workers' side. `logits` is [rows, stride].
  void run_row(const device::PickRow& pick, std::span<const uint32_t> masks, const float* logits, int64_t stride,
               int32_t worker, device::PickedRow* row, device::TokenLogprob* top);

  device::PickedRow* results(int32_t step) const;
  device::TokenLogprob* top(int32_t step, int64_t row) const;

 private:
  Status check_row(const device::PickRow& p, size_t rows, size_t masks) const;

  PickPlan plan_;
  std::byte* region_ = nullptr;
  // What a slot holds, contiguous, as of the last launch.
  struct Known {
    int32_t begin = 0, end = 0;
    int64_t stamp = 0;
  };
  std::vector<Known> known_;
  int64_t stamp_ = 0;
};

}  // namespace bora::cpu
