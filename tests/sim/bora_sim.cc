// bora_sim [SEED] [REQUESTS]: the simulation at length. Prints the report; exit 1 at the first violation.
#include <chrono>
#include <cstdio>
#include <cstdlib>

#include "sched/sim.h"

int main(int argc, char** argv) {
  bora::sched::SimOptions options;
  if (argc > 1) options.seed = std::strtoull(argv[1], nullptr, 10);
  options.requests = argc > 2 ? std::atoll(argv[2]) : 1'000'000;
  const auto begin = std::chrono::steady_clock::now();
  auto r = bora::sched::simulate(options);
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  if (!r.ok()) {
    std::printf("%s\n", r.status().message().c_str());
    return 1;
  }
  std::printf("seed %llu: %lld requests, %lld choices, %lld steps, %lld rows in %.1f s\n",
              static_cast<unsigned long long>(options.seed), static_cast<long long>(r->requests),
              static_cast<long long>(r->choices), static_cast<long long>(r->steps), static_cast<long long>(r->rows),
              seconds);
  std::printf("mixed steps %lld, preemptions %lld, surplus rows %lld, hit units %lld, evicted %lld, copies %lld\n",
              static_cast<long long>(r->mixed_steps), static_cast<long long>(r->preemptions),
              static_cast<long long>(r->surplus_rows), static_cast<long long>(r->hit_units),
              static_cast<long long>(r->evicted), static_cast<long long>(r->copies));
  std::printf(
      "stopped %lld, by length %lld, cancelled %lld, expired %lld, rejected %lld, moves %lld + %lld failed, longest "
      "%lld steps\n",
      static_cast<long long>(r->stopped), static_cast<long long>(r->by_length), static_cast<long long>(r->cancelled),
      static_cast<long long>(r->expired), static_cast<long long>(r->rejected), static_cast<long long>(r->moves_done),
      static_cast<long long>(r->moves_failed), static_cast<long long>(r->most_steps));
  return 0;
}
