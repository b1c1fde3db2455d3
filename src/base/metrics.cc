#include "base/metrics.h"

#include <prometheus/counter.h>
#include <prometheus/family.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

#include <algorithm>
#include <map>
#include <mutex>

#include "base/check.h"

namespace bora {

void Counter::add(double n) { impl_->Increment(n); }
double Counter::value() const { return impl_->Value(); }
void Gauge::set(double v) { impl_->Set(v); }
double Gauge::value() const { return impl_->Value(); }
void Histogram::observe(double v) { impl_->Observe(v); }

// One family a name; the maps tell a second use with another kind, which prometheus-cpp would answer with an
// exception.
struct MetricsRegistry::Impl {
  prometheus::Registry registry;
  std::mutex mutex;
  std::map<std::string, prometheus::Family<prometheus::Counter>*, std::less<>> counters;
  std::map<std::string, prometheus::Family<prometheus::Gauge>*, std::less<>> gauges;
  std::map<std::string, prometheus::Family<prometheus::Histogram>*, std::less<>> histograms;

  bool taken(std::string_view name) const {
    return counters.count(name) + gauges.count(name) + histograms.count(name) > 0;
  }

  template <typename Family, typename BuildFn>
  Family& family(std::map<std::string, Family*, std::less<>>& map, std::string_view name, std::string_view help,
                 BuildFn build) {
    auto it = map.find(name);
    if (it != map.end()) return *it->second;
    BORA_CHECK(!taken(name), "a metric name has one kind");
    Family& fresh = build().Name(std::string(name)).Help(std::string(help)).Register(registry);
    map.emplace(std::string(name), &fresh);
    return fresh;
  }
};

namespace {

std::map<std::string, std::string> as_map(const Labels& labels) { return {labels.begin(), labels.end()}; }

}  // namespace

MetricsRegistry::MetricsRegistry() : impl_(std::make_unique<Impl>()) {}
MetricsRegistry::~MetricsRegistry() = default;

Counter MetricsRegistry::counter(std::string_view name, std::string_view help, Labels labels) {
  std::lock_guard lock(impl_->mutex);
  return Counter(&impl_->family(impl_->counters, name, help, prometheus::BuildCounter).Add(as_map(labels)));
}

Gauge MetricsRegistry::gauge(std::string_view name, std::string_view help, Labels labels) {
  std::lock_guard lock(impl_->mutex);
  return Gauge(&impl_->family(impl_->gauges, name, help, prometheus::BuildGauge).Add(as_map(labels)));
}

Histogram MetricsRegistry::histogram(std::string_view name, std::string_view help, std::vector<double> upper_bounds,
                                     Labels labels) {
  BORA_CHECK(std::is_sorted(upper_bounds.begin(), upper_bounds.end()), "histogram bounds must ascend");
  std::lock_guard lock(impl_->mutex);
  auto& family = impl_->family(impl_->histograms, name, help, prometheus::BuildHistogram);
  return Histogram(&family.Add(as_map(labels), upper_bounds));
}

std::string MetricsRegistry::render_text() const {
  std::lock_guard lock(impl_->mutex);
  std::vector<prometheus::MetricFamily> families = impl_->registry.Collect();
  std::sort(families.begin(), families.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
  return prometheus::TextSerializer().Serialize(families);
}

}  // namespace bora
