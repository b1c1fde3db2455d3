// Rope tables. Formula: Su et al., RoFormer (2021). Types of scaling are records; those that belong to one family
// stand in its file.
#include <cmath>

#include "model/blocks.h"

namespace bora::model {

extern const RopeType kDefaultRope;
const RopeType kDefaultRope{.name = "default", .frequency = [](double f, const Json&) { return f; }};
extern const RopeType kLinearRope;
const RopeType kLinearRope{.name = "linear",
                           .frequency = [](double f, const Json& s) { return f / rope_number(s, "factor", 1); }};
double rope_number(const Json& settings, std::string_view key, double fallback) {
  const Json* v = settings.find(key);
  return v != nullptr && v->is_number() ? v->as_double() : fallback;
}

Result<Rope> make_rope(const Json& settings, int32_t dims) {
  const Json* type_json = settings.find("rope_type");
  const std::string type = type_json != nullptr && type_json->is_string() ? type_json->as_string() : "default";
  const double theta = rope_number(settings, "rope_theta", 10000);
  if (!(theta > 1)) return invalid_argument("rope_theta must be above 1");
  const double factor = rope_number(settings, "factor", 1);
  if (!(factor > 0)) return invalid_argument("rope factor must be positive");
  Rope rope;
  for (int32_t j = 0; j < dims / 2; ++j) {
    // Powers and quotients in float32, as the reference computes its table.
    const float exponent = static_cast<float>(2 * j) / static_cast<float>(dims);
    const double f = static_cast<double>(1.0f / std::pow(static_cast<float>(theta), exponent));
    rope.inv_freq.push_back(f);
  }
  const RopeType* scaling = nullptr;
  std::string known;
  for (const RopeType* t : rope_types()) {
    if (t->name == type) scaling = t;
    known += (known.empty() ? "" : ", ") + std::string(t->name);
  }
  if (scaling == nullptr) return unimplemented("rope type '" + type + "' is not supported; known: " + known);
  for (double& f : rope.inv_freq) f = scaling->frequency(f, settings);
  // Factors of a file (GGUF's rope_freqs) divide what the type gives.
  if (const Json* factors = settings.find("factors")) {
    if (factors->size() != rope.inv_freq.size())
      return invalid_argument("rope factors for another number of dimensions");
    for (size_t j = 0; j < rope.inv_freq.size(); ++j) rope.inv_freq[j] /= factors->items()[j].as_double();
  }
  return rope;
}

}  // namespace bora::model
