// Rope tables. Formulas: Su et al., RoFormer (2021); the llama3 rule is the public one of that model's configuration.
#include <cmath>
#include <numbers>

#include "model/blocks.h"

namespace bora::model {
namespace {

double number(const Json& j, std::string_view key, double fallback) {
  const Json* v = j.find(key);
  return v != nullptr && v->is_number() ? v->as_double() : fallback;
}

// Wavelengths far beyond the original context are stretched, short ones kept, those between blended.
double llama3_frequency(double f, const Json& s) {
  const double factor = number(s, "factor", 8), low = number(s, "low_freq_factor", 1),
               high = number(s, "high_freq_factor", 4);
  const double original = number(s, "original_max_position_embeddings", 8192);
  const double wave = 2 * std::numbers::pi / f;
  if (wave > original / low) return f / factor;
  if (wave < original / high) return f;
  const double smooth = (original / wave - low) / (high - low);
  return (1 - smooth) * f / factor + smooth * f;
}

}  // namespace

Result<Rope> make_rope(const Json& settings, int32_t dims) {
  const Json* type_json = settings.find("rope_type");
  const std::string type = type_json != nullptr && type_json->is_string() ? type_json->as_string() : "default";
  const double theta = number(settings, "rope_theta", 10000);
  if (!(theta > 1)) return invalid_argument("rope_theta must be above 1");
  const double factor = number(settings, "factor", 1);
  if (!(factor > 0)) return invalid_argument("rope factor must be positive");
  Rope rope;
  for (int32_t j = 0; j < dims / 2; ++j) {
    // Powers and quotients in float32, as the reference computes its table.
    const float exponent = static_cast<float>(2 * j) / static_cast<float>(dims);
    const double f = static_cast<double>(1.0f / std::pow(static_cast<float>(theta), exponent));
    rope.inv_freq.push_back(f);
  }
  if (type == "linear") {
    for (double& f : rope.inv_freq) f /= factor;
  } else if (type == "llama3") {
    for (double& f : rope.inv_freq) f = llama3_frequency(f, settings);
  } else if (type != "default") {
    return unimplemented("rope type '" + type + "' is not supported; known: default, linear, llama3");
  }
  // Factors of a file (GGUF's rope_freqs) divide what the type gives.
  if (const Json* factors = settings.find("factors")) {
    if (factors->size() != rope.inv_freq.size())
      return invalid_argument("rope factors for another number of dimensions");
    for (size_t j = 0; j < rope.inv_freq.size(); ++j) rope.inv_freq[j] /= factors->items()[j].as_double();
  }
  return rope;
}

}  // namespace bora::model
