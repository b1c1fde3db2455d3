// Metrics: counters, gauges and histograms in a registry that is handed in (prometheus-cpp underneath). Handles are
// looked up once and then updated without a registry lock; `serve` renders the registry as text. Names, units and
// help follow the Prometheus conventions (base units, _total).
//
// Handles stay valid as long as the registry. All members may be called from any thread.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace prometheus {
class Counter;
class Gauge;
class Histogram;
}  // namespace prometheus

namespace bora {

// Handles: one pointer, copied freely.
class Counter {
 public:
  explicit Counter(prometheus::Counter* impl) : impl_(impl) {}
  void add(double n = 1);  // REQUIRES: n >= 0
  double value() const;

 private:
  prometheus::Counter* impl_;
};

class Gauge {
 public:
  explicit Gauge(prometheus::Gauge* impl) : impl_(impl) {}
  void set(double v);
  double value() const;

 private:
  prometheus::Gauge* impl_;
};

class Histogram {
 public:
  explicit Histogram(prometheus::Histogram* impl) : impl_(impl) {}
  void observe(double v);

 private:
  prometheus::Histogram* impl_;
};

using Labels = std::vector<std::pair<std::string, std::string>>;

class MetricsRegistry {
 public:
  MetricsRegistry();
  ~MetricsRegistry();
  // The same name and labels give the same handle. A name has one kind and one help text; another use of it is a bug.
  Counter counter(std::string_view name, std::string_view help, Labels labels = {});
  Gauge gauge(std::string_view name, std::string_view help, Labels labels = {});
  Histogram histogram(std::string_view name, std::string_view help, std::vector<double> upper_bounds,
                      Labels labels = {});

  // The text exposition format 0.0.4; families sorted by name.
  std::string render_text() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace bora
