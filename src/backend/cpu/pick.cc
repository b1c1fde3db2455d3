#include "backend/cpu/pick.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "backend/cpu/pick_scan.h"
#include "base/rng.h"

namespace bora::cpu {
namespace {

constexpr float kLowest = -std::numeric_limits<float>::infinity();

bool before(const Candidate& a, const Candidate& b) { return a.x != b.x ? a.x > b.x : a.id < b.id; }

// A row on its way to a token: what is left of it lies in list[0 .. count), by ascending id.
struct Row {
  const PickInput& in;
  const PickScratch& s;
  const ir::PickParams& p;
  const float* x;
  ScanMax most;
  float temperature = 1, factor = 1;
  int64_t count = 0;

  float noise(uint32_t lane) const {
    return noise_unit(p.seed, static_cast<uint32_t>(p.choice), static_cast<uint32_t>(in.history.size()), lane);
  }
  int64_t blocks() const { return (in.vocab + kScanBlock - 1) / kScanBlock; }
  std::span<Candidate> list() const { return {s.list, static_cast<size_t>(count)}; }
  double z(float value) const {
    return (static_cast<double>(value) - static_cast<double>(most.value)) * static_cast<double>(factor);
  }
  double mass() const {
    double sum = 0;
    for (const Candidate& c : list()) sum += static_cast<double>(c.w);
    return sum;
  }
  // The logit that is `distance` below the greatest on the scale of exponents, or a little less.
  float below(double distance) const {
    const double d = (distance + 1e-3) / static_cast<double>(factor);
    const double v = static_cast<double>(most.value);
    return static_cast<float>(v - d - 1e-6 * std::abs(v));
  }
  void take_from(float floor) {
    count = scan_collect(x, in.vocab, floor, s.ids);
    const std::span<const int32_t> ids(s.ids, static_cast<size_t>(count));
    scan_exp_ids(x, ids, most.value, factor, s.weights);
    for (int64_t i = 0; i < count; ++i) s.list[i] = {x[s.ids[i]], s.weights[i], s.ids[i]};
  }
  // Keeps the candidates whose ids stand in order[0 .. n).
  void keep(int64_t n) {
    for (int64_t i = 0; i < n; ++i) s.counts[s.order[i].id] = 1;
    int64_t left = 0;
    for (int64_t i = 0; i < count; ++i) {
      if (s.counts[s.list[i].id] != 0) s.list[left++] = s.list[i];
    }
    for (int64_t i = 0; i < n; ++i) s.counts[s.order[i].id] = 0;
    count = left;
  }
};

// A value that at least k elements of the row reach: the k-th greatest of its blocks' maxima.
float reached_by(const Row& r, int64_t k) {
  const int64_t blocks = r.blocks();
  if (k > blocks) return kLowest;
  float* copy = r.s.weights;
  std::copy_n(r.s.block_max, blocks, copy);
  std::nth_element(copy, copy + (k - 1), copy + blocks, std::greater<>());
  return copy[k - 1];
}

void keep_greatest(Row& r, int64_t k) {
  if (k >= r.count) return;
  std::copy_n(r.s.list, r.count, r.s.order);
  std::nth_element(r.s.order, r.s.order + k, r.s.order + r.count, before);
  r.keep(k);
}

// Brings the shortest beginning of `order`, as `before` sorts it, that holds `goal` to the front and returns its
// length. By selection: pieces that grow until one holds the end, then halves of that piece; only the last few are
// sorted.
int64_t reach_mass(const Row& r, double goal) {
  Candidate* o = r.s.order;
  double sum = 0;
  int64_t low = 0, high = r.count;
  const auto mass_to = [&](int64_t end) {
    if (end < high) std::nth_element(o + low, o + end, o + high, before);
    double mass = sum;
    for (int64_t i = low; i < end; ++i) mass += static_cast<double>(o[i].w);
    return mass;
  };
  const auto narrow = [&](int64_t end) {
    const double mass = mass_to(end);
    if (mass >= goal) {
      high = end;
      return true;
    }
    low = end;
    sum = mass;
    return false;
  };
  for (int64_t piece = 128; low + piece < high && !narrow(low + piece); piece *= 16) {
  }
  while (high - low > 64) (void)narrow(low + (high - low) / 2);
  std::sort(o + low, o + high, before);
  for (; low < high; ++low) {
    sum += static_cast<double>(o[low].w);
    if (sum >= goal) return low + 1;
  }
  return high;
}

void keep_mass(Row& r, double goal) {
  std::copy_n(r.s.list, r.count, r.s.order);
  r.keep(reach_mass(r, goal));
}

// By |surprise - entropy|, which is |z - mean of z|, ascending.
void keep_typical(Row& r, double share) {
  double sum = 0, weighted = 0;
  for (const Candidate& c : r.list()) {
    sum += static_cast<double>(c.w);
    if (c.w > 0) weighted += static_cast<double>(c.w) * r.z(c.x);
  }
  const double mean = weighted / sum;
  for (int64_t i = 0; i < r.count; ++i) {
    const Candidate& c = r.s.list[i];
    r.s.order[i] = {-static_cast<float>(std::abs(r.z(c.x) - mean)), c.w, c.id};
  }
  r.keep(reach_mass(r, share * sum));
}

void keep_min_p(Row& r, float share) {
  float greatest = 0;
  for (const Candidate& c : r.list()) greatest = std::max(greatest, c.w);
  const double least = static_cast<double>(share) * static_cast<double>(greatest);
  int64_t left = 0;
  for (int64_t i = 0; i < r.count; ++i) {
    if (static_cast<double>(r.s.list[i].w) >= least) r.s.list[left++] = r.s.list[i];
  }
  r.count = left;
}

bool xtc_happens(const Row& r) {
  return r.p.xtc_probability > 0 && r.p.xtc_threshold <= 0.5f && r.noise(1) < r.p.xtc_probability;
}

// Of the candidates at least as likely as the threshold only the least likely stays.
void exclude_top(Row& r) {
  const double least = static_cast<double>(r.p.xtc_threshold) * r.mass();
  const Candidate* last = nullptr;
  for (const Candidate& c : r.list()) {
    if (static_cast<double>(c.w) >= least && (last == nullptr || before(*last, c))) last = &c;
  }
  if (last == nullptr) return;
  const int32_t stays = last->id;
  int64_t left = 0;
  for (int64_t i = 0; i < r.count; ++i) {
    const Candidate c = r.s.list[i];
    if (static_cast<double>(c.w) < least || c.id == stays) r.s.list[left++] = c;
  }
  r.count = left;
}

// The candidate at `noise` of the mass.
Candidate draw(const Row& r) {
  const double goal = static_cast<double>(r.noise(0)) * r.mass();
  double at = 0;
  Candidate last = r.s.list[0];
  for (const Candidate& c : r.list()) {
    if (!(c.w > 0)) continue;
    last = c;
    at += static_cast<double>(c.w);
    if (at > goal) break;
  }
  return last;
}

// The same over the whole row: by the blocks' sums, then inside one block.
int32_t draw_from_row(const Row& r, float floor) {
  const double total = scan_exp(r.x, r.in.vocab, r.most.value, r.factor, floor, r.s.sums);
  const double goal = static_cast<double>(r.noise(0)) * total;
  const int64_t blocks = r.blocks();
  int64_t block = 0, last_block = 0;
  double at = 0, last_at = 0;
  for (; block < blocks; ++block) {
    if (!(r.s.sums[block] > 0)) continue;
    last_block = block;
    last_at = at;
    at += r.s.sums[block];
    if (at > goal) break;
  }
  const int64_t begin = last_block * kScanBlock, n = std::min<int64_t>(kScanBlock, r.in.vocab - begin);
  float w[kScanBlock];
  scan_exp_run(r.x, begin, n, r.most.value, r.factor, w);
  int32_t id = r.most.id;
  for (int64_t i = 0; i < n; ++i) {
    if (!(w[i] > 0) || !(r.x[begin + i] >= floor)) continue;
    id = static_cast<int32_t>(begin + i);
    last_at += static_cast<double>(w[i]);
    if (last_at > goal) break;
  }
  return id;
}

// temperature +- range by the entropy of the row over that of a flat one.
float dynamic_temperature(Row& r) {
  r.factor = 1;
  r.take_from(kLowest);
  double sum = 0, weighted = 0;
  for (const Candidate& c : r.list()) {
    sum += static_cast<double>(c.w);
    if (c.w > 0) weighted += static_cast<double>(c.w) * r.z(c.x);
  }
  const double t = static_cast<double>(r.p.temperature), range = static_cast<double>(r.p.dynatemp_range);
  if (r.count < 2) return r.p.temperature;
  const double entropy = std::log(sum) - weighted / sum;
  const double share = std::clamp(entropy / std::log(static_cast<double>(r.count)), 0.0, 1.0);
  const double low = std::max(0.0, t - range), high = t + range;
  return static_cast<float>(low + (high - low) * std::pow(share, static_cast<double>(r.p.dynatemp_exponent)));
}

float sigma_floor(const Row& r) {
  double sum = 0, squares = 0;
  int64_t n = 0;
  for (int32_t i = 0; i < r.in.vocab; ++i) {
    if (!std::isfinite(r.x[i])) continue;
    const double d = static_cast<double>(r.x[i]) - static_cast<double>(r.most.value);
    sum += d;
    squares += d * d;
    ++n;
  }
  const double mean = sum / static_cast<double>(n);
  const double sigma = std::sqrt(std::max(0.0, squares / static_cast<double>(n) - mean * mean));
  return static_cast<float>(static_cast<double>(r.most.value) - static_cast<double>(r.p.top_n_sigma) * sigma);
}

int64_t mirostat_k(Row& r) {
  r.take_from(reached_by(r, std::min<int64_t>(100, r.in.vocab)));
  std::copy_n(r.s.list, r.count, r.s.order);
  const int64_t m = std::min<int64_t>(100, r.count);
  std::partial_sort(r.s.order, r.s.order + m, r.s.order + r.count, before);
  double tb = 0, tt = 0;
  for (int64_t i = 0; i + 1 < m; ++i) {
    const double t = std::log(static_cast<double>(i + 2) / static_cast<double>(i + 1));
    tb += t * (r.z(r.s.order[i].x) - r.z(r.s.order[i + 1].x));
    tt += t * t;
  }
  const double s = tt > 0 ? tb / tt : 0, eps = s - 1, n = r.in.vocab;
  const double ratio = std::abs(eps) < 1e-9 ? 1 / std::log(n) : eps / (1 - std::pow(n, -eps));
  const double k = std::pow(ratio * std::exp2(static_cast<double>(r.in.mu)), 1 / s);
  return k >= 1 ? static_cast<int64_t>(std::min(k, n)) : 1;
}

int32_t draw_mirostat(Row& r, float* next_mu) {
  if (r.p.mirostat == 1) {
    const int64_t k = mirostat_k(r);
    r.take_from(reached_by(r, k));
    keep_greatest(r, k);
  } else {
    // Surprise at most mu, in bits: w >= total * 2^-mu.
    const double total = scan_exp(r.x, r.in.vocab, r.most.value, r.factor, kLowest, nullptr);
    const double least = total * std::exp2(-static_cast<double>(r.in.mu));
    r.take_from(r.below(least < 1 ? -std::log(least) : 0));
    int64_t left = 0;
    for (int64_t i = 0; i < r.count; ++i) {
      if (static_cast<double>(r.s.list[i].w) >= least || r.s.list[i].id == r.most.id) r.s.list[left++] = r.s.list[i];
    }
    r.count = left;
  }
  const Candidate c = draw(r);
  const double surprise = std::log2(r.mass()) - std::log2(static_cast<double>(c.w));
  *next_mu =
      static_cast<float>(static_cast<double>(r.in.mu) -
                         static_cast<double>(r.p.mirostat_eta) * (surprise - static_cast<double>(r.p.mirostat_tau)));
  return c.id;
}

// Without top_k and what must see all, the nucleus lies among the likely ones: looks a little further each time.
void keep_nucleus(Row& r, float floor) {
  const double share = static_cast<double>(r.p.top_p);
  const double goal = share * scan_exp(r.x, r.in.vocab, r.most.value, r.factor, floor, nullptr);
  for (const double distance : {7.0, 14.0, 90.0}) {
    r.take_from(std::max(floor, r.below(distance)));
    if (r.mass() >= goal) break;
  }
  keep_mass(r, goal);
}

int32_t draw_filtered(Row& r) {
  const ir::PickParams& p = r.p;
  const bool top_k = p.top_k > 0 && p.top_k < r.in.vocab, typical = p.typical_p < 1, xtc = xtc_happens(r);
  const float floor = p.top_n_sigma > 0 ? sigma_floor(r) : kLowest;
  if (!top_k && !typical && !xtc && p.min_p <= 0) {
    if (p.top_p >= 1) return draw_from_row(r, floor);
    keep_nucleus(r, floor);
    return draw(r).id;
  }
  if (top_k) {
    r.take_from(std::max(floor, reached_by(r, p.top_k)));
    keep_greatest(r, p.top_k);
  } else if (p.min_p > 0 && !typical) {
    r.take_from(std::max(floor, r.below(-std::log(static_cast<double>(p.min_p)))));
  } else {
    r.take_from(floor);
  }
  if (typical) keep_typical(r, static_cast<double>(p.typical_p));
  if (p.min_p > 0) keep_min_p(r, p.min_p);
  if (p.top_p < 1) keep_mass(r, static_cast<double>(p.top_p) * r.mass());
  if (xtc) exclude_top(r);
  return draw(r).id;
}

}  // namespace

int32_t pick_token(const PickInput& in, const PickScratch& s, float* next_mu) {
  const float* x = apply_logit_changes(in, s) ? s.x : in.logits;
  const ir::PickParams& p = *in.params;
  Row r{.in = in, .s = s, .p = p, .x = x, .most = scan_max(x, in.vocab, p.temperature > 0 ? s.block_max : nullptr)};
  *next_mu = in.mu;
  if (r.most.id < 0 || p.temperature <= 0) return r.most.id;
  // A pick that is certain has no surprise.
  if (p.mirostat != 0) *next_mu = in.mu + p.mirostat_eta * p.mirostat_tau;
  if (std::isinf(r.most.value)) return r.most.id;
  r.temperature = p.dynatemp_range > 0 ? dynamic_temperature(r) : p.temperature;
  if (r.temperature <= 0) return r.most.id;
  r.factor = std::min(1.0f / r.temperature, 1e30f);
  return p.mirostat != 0 ? draw_mirostat(r, next_mu) : draw_filtered(r);
}

int32_t pick_logprobs(const PickInput& in, const PickScratch& s, int32_t id, int32_t count, device::PickedRow* row,
                      device::TokenLogprob* top) {
  Row r{.in = in, .s = s, .p = *in.params, .x = in.logits, .most = scan_max(in.logits, in.vocab, s.block_max)};
  if (r.most.id < 0) return 0;
  const bool endless = std::isinf(r.most.value);
  const double log_sum = endless ? 0 : std::log(scan_exp(r.x, in.vocab, r.most.value, 1.0f, kLowest, nullptr));
  const auto logprob = [&](float v) {
    if (endless) return v == r.most.value ? 0.0f : kLowest;
    return v > kLowest ? static_cast<float>(r.z(v) - log_sum) : kLowest;
  };
  if (id >= 0) {
    row->logprob = logprob(r.x[id]);
    row->rank = static_cast<int32_t>(scan_greater(r.x, in.vocab, std::isnan(r.x[id]) ? kLowest : r.x[id]));
  }
  if (count <= 0) return 0;
  const int64_t n = scan_collect(r.x, in.vocab, reached_by(r, count), s.ids);
  for (int64_t i = 0; i < n; ++i) s.order[i] = {r.x[s.ids[i]], 0, s.ids[i]};
  const int64_t have = std::min<int64_t>(count, n);
  std::partial_sort(s.order, s.order + have, s.order + n, before);
  for (int64_t i = 0; i < have; ++i) top[i] = {s.order[i].id, logprob(s.order[i].x)};
  return static_cast<int32_t>(have);
}

}  // namespace bora::cpu
