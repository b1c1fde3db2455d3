#include "sample/sampler.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/rng.h"

namespace bora::sample {
namespace {

constexpr double kEndless = std::numeric_limits<double>::infinity();

bool likelier(const Candidate& a, const Candidate& b) { return a.logit != b.logit ? a.logit > b.logit : a.id < b.id; }

// Candidates, likeliest first, and how near decisions were.
struct Row {
  std::vector<Candidate> c;
  double margin = kEndless;

  void near(double distance) { margin = std::min(margin, std::abs(distance)); }
  // The cut after the first n of c, which are in the order of the decision.
  void cut(size_t n) {
    if (n < c.size() && n > 0) near((c[n - 1].logit - c[n].logit) / std::max(1.0, std::abs(c[n].logit)));
    c.resize(std::min(n, c.size()));
  }
  void normalize() {
    double sum = 0;
    for (const Candidate& i : c) sum += i.probability;
    for (Candidate& i : c) i.probability /= sum;
  }
  void softmax(double temperature) {
    const double most = c[0].logit;
    for (Candidate& i : c) i.probability = std::exp((i.logit - most) / temperature);
    normalize();
  }
  // The shortest beginning that holds `share`.
  size_t reach(double share) {
    double sum = 0;
    size_t n = 0;
    while (n < c.size()) {
      sum += c[n++].probability;
      near(sum - share);
      if (sum >= share) break;
    }
    return n;
  }
};

double entropy(const Row& r) {
  double h = 0;
  for (const Candidate& i : r.c) {
    if (i.probability > 0) h -= i.probability * std::log(i.probability);
  }
  return h;
}

double temperature_of(Row& r, const Params& p) {
  const double t = static_cast<double>(p.temperature), range = static_cast<double>(p.dynatemp_range);
  if (range <= 0 || r.c.size() < 2) return t;
  r.softmax(1);
  const double share = std::clamp(entropy(r) / std::log(static_cast<double>(r.c.size())), 0.0, 1.0);
  const double low = std::max(0.0, t - range);
  return low + (t + range - low) * std::pow(share, static_cast<double>(p.dynatemp_exponent));
}

void top_n_sigma(Row& r, double n) {
  double sum = 0, squares = 0;
  for (const Candidate& i : r.c) sum += i.logit;
  const double mean = sum / static_cast<double>(r.c.size());
  for (const Candidate& i : r.c) squares += (i.logit - mean) * (i.logit - mean);
  const double floor = r.c[0].logit - n * std::sqrt(squares / static_cast<double>(r.c.size()));
  for (const Candidate& i : r.c) r.near((i.logit - floor) / std::max(1.0, std::abs(floor)));
  std::erase_if(r.c, [&](const Candidate& i) { return i.logit < floor; });
}

void typical(Row& r, double share) {
  const double h = entropy(r);
  const auto surprise = [&](const Candidate& i) {
    return i.probability > 0 ? std::abs(-std::log(i.probability) - h) : kEndless;
  };
  std::sort(r.c.begin(), r.c.end(), [&](const Candidate& a, const Candidate& b) {
    const double x = surprise(a), y = surprise(b);
    return x != y ? x < y : a.id < b.id;
  });
  const size_t n = r.reach(share);
  if (n < r.c.size()) r.near(surprise(r.c[n]) - surprise(r.c[n - 1]));
  r.c.resize(n);
  std::sort(r.c.begin(), r.c.end(), likelier);
  r.normalize();
}

void min_p(Row& r, double share) {
  const double least = share * r.c[0].probability;
  for (const Candidate& i : r.c) r.near(i.probability / least - 1);
  std::erase_if(r.c, [&](const Candidate& i) { return i.probability < least; });
  r.normalize();
}

void xtc(Row& r, const Params& p, float noise) {
  if (!(p.xtc_probability > 0) || p.xtc_threshold > 0.5f || noise >= p.xtc_probability) return;
  const double threshold = static_cast<double>(p.xtc_threshold);
  size_t n = 0;
  for (; n < r.c.size() && r.c[n].probability >= threshold; ++n) r.near(r.c[n].probability / threshold - 1);
  if (n < r.c.size() && threshold > 0) r.near(r.c[n].probability / threshold - 1);
  if (n < 2) return;
  if (n < r.c.size()) r.near((r.c[n - 1].logit - r.c[n].logit) / std::max(1.0, std::abs(r.c[n].logit)));
  r.near((r.c[n - 2].logit - r.c[n - 1].logit) / std::max(1.0, std::abs(r.c[n - 1].logit)));
  r.c.erase(r.c.begin(), r.c.begin() + static_cast<ptrdiff_t>(n - 1));
  r.normalize();
}

// The estimate of the Zipf exponent and the k of mirostat 1 (Basu et al. 2021, algorithm 1).
size_t mirostat_k(Row& r, double vocab, double mu, double temperature) {
  const size_t m = std::min<size_t>(100, r.c.size());
  double tb = 0, tt = 0;
  for (size_t i = 0; i + 1 < m; ++i) {
    const double t = std::log(static_cast<double>(i + 2) / static_cast<double>(i + 1));
    tb += t * (r.c[i].logit - r.c[i + 1].logit) / temperature;  // the logarithm of two probabilities' ratio
    tt += t * t;
  }
  const double s = tt > 0 ? tb / tt : 0, e = s - 1;
  const double ratio = std::abs(e) < 1e-9 ? 1 / std::log(vocab) : e / (1 - std::pow(vocab, -e));
  const double k = std::pow(ratio * std::exp2(mu), 1 / s);
  if (std::isfinite(k)) r.near((k - std::round(k)) / std::max(1.0, k));
  return k >= 1 ? static_cast<size_t>(std::min(k, vocab)) : 1;
}

void mirostat(Row& r, const Input& in, const Params& p, double temperature) {
  const double mu = in.mu < 0 ? 2 * static_cast<double>(p.mirostat_tau) : in.mu;
  if (p.mirostat == 1) {
    r.cut(mirostat_k(r, static_cast<double>(in.logits.size()), mu, temperature));
  } else {
    size_t n = 1;
    for (; n < r.c.size(); ++n) {
      const double over = -std::log2(r.c[n].probability) - mu;
      r.near(over);
      if (over > 0) break;
    }
    r.cut(n);
  }
  r.normalize();
}

void truncate(Row& r, const Params& p, float noise) {
  if (p.top_n_sigma > 0) top_n_sigma(r, static_cast<double>(p.top_n_sigma));
  if (p.top_k > 0) r.cut(static_cast<size_t>(p.top_k));
  r.normalize();
  if (p.typical_p < 1) typical(r, static_cast<double>(p.typical_p));
  if (p.min_p > 0) min_p(r, static_cast<double>(p.min_p));
  if (p.top_p < 1) {
    r.cut(r.reach(static_cast<double>(p.top_p)));
    r.normalize();
  }
  xtc(r, p, noise);
}

float noise(const Params& p, size_t position, uint32_t lane) {
  return noise_unit(p.seed, static_cast<uint32_t>(p.choice), static_cast<uint32_t>(position), lane);
}

Row candidates_at(const Input& in, const Params& p, size_t position) {
  const std::vector<double> x = processed_logits(in, p);
  Row r;
  for (size_t id = 0; id < x.size(); ++id) {
    if (x[id] > -kEndless) r.c.push_back({static_cast<int32_t>(id), x[id], 1});
  }
  std::sort(r.c.begin(), r.c.end(), likelier);
  if (r.c.empty()) return r;
  if (p.temperature <= 0 || std::isinf(r.c[0].logit)) {
    r.cut(1);
    r.c[0].probability = 1;
    return r;
  }
  const double temperature = temperature_of(r, p);
  if (temperature <= 0) {
    r.cut(1);
    return r;
  }
  r.softmax(temperature);
  p.mirostat != 0 ? mirostat(r, in, p, temperature) : truncate(r, p, noise(p, position, 1));
  std::sort(r.c.begin(), r.c.end(), [](const Candidate& a, const Candidate& b) { return a.id < b.id; });
  return r;
}

Picked pick_at(const Input& in, const Params& p, size_t position) {
  Row r = candidates_at(in, p, position);
  Picked out;
  out.mu = in.mu < 0 ? 2 * static_cast<double>(p.mirostat_tau) : in.mu;
  out.margin = r.margin;
  if (r.c.empty()) return out;
  out.id = r.c.back().id;
  if (r.c.size() > 1) {
    const double u = static_cast<double>(noise(p, position, 0));
    double sum = 0;
    for (const Candidate& i : r.c) {
      sum += i.probability;
      out.margin = std::min(out.margin, std::abs(sum - u));
      out.id = i.id;
      if (sum > u) break;
    }
  }
  if (p.mirostat != 0 && p.temperature > 0) {
    const auto picked = std::find_if(r.c.begin(), r.c.end(), [&](const Candidate& i) { return i.id == out.id; });
    out.mu -=
        static_cast<double>(p.mirostat_eta) * (-std::log2(picked->probability) - static_cast<double>(p.mirostat_tau));
  }
  return out;
}

}  // namespace

std::vector<Candidate> candidates(const Input& in, const Params& p, double* margin) {
  Row r = candidates_at(in, p, in.history.size());
  if (margin != nullptr) *margin = r.margin;
  return std::move(r.c);
}

Picked pick(const Input& in, const Params& p) { return pick_at(in, p, in.history.size()); }

Picked pick(std::span<const float> logits, const Params& p, int32_t position) {
  return pick_at({.logits = logits, .history = {}}, p, static_cast<size_t>(position));
}

Logprobs logprobs(std::span<const float> logits, int32_t id, int32_t alternatives) {
  std::vector<Candidate> c;
  for (size_t i = 0; i < logits.size(); ++i) {
    const double v = static_cast<double>(logits[i]);
    if (v > -kEndless) c.push_back({static_cast<int32_t>(i), v, 0});
  }
  std::sort(c.begin(), c.end(), likelier);
  Logprobs out;
  if (c.empty()) return out;
  const bool endless = std::isinf(c[0].logit);
  double sum = 0;
  for (const Candidate& i : c) sum += std::exp(i.logit - c[0].logit);
  const auto logprob = [&](double v) {
    if (endless) return v == c[0].logit ? 0 : -kEndless;
    return v > -kEndless ? v - c[0].logit - std::log(sum) : -kEndless;
  };
  if (id >= 0) {
    const double v = static_cast<double>(logits[static_cast<size_t>(id)]);
    out.logprob = logprob(v);
    for (const Candidate& i : c) out.rank += std::isnan(v) || i.logit > v ? 1 : 0;
  }
  for (size_t i = 0; i < c.size() && static_cast<int32_t>(i) < alternatives; ++i)
    out.top.push_back({c[i].id, logprob(c[i].logit)});
  return out;
}

}  // namespace bora::sample
