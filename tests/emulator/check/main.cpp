// Runs the kernels on the CPU; see docs/dev/emulator.md.
#include <signal.h>
#include <sys/time.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "check/draw.h"
#include "check/norm.h"
#include "check/plans.h"
#include "check/run.h"
#include "machine/memory.h"

namespace check {
namespace {

constexpr char kUsage[] =
    "emulate [--seed N] [--seconds S] [--cases N] [--failures N] [--operator O] [--type T] [--engine E] [--verbose]\n"
    "emulate --norm [--seed N] [--seconds S] [--cases N] [--failures N] [--problem LINE] [--verbose]\n"
    "emulate --problem LINE | --problems FILE  [--engine E] [--plan best|all|I] [--share I/N] [--verbose]\n";
constexpr int kMostSeconds = 240;  // of the processor, for a case: longer is an endless loop

char current_line[1024];

void write_text(const char* text) {
  if (write(STDOUT_FILENO, text, std::strlen(text)) < 0) _exit(3);
}

void report_failure(const char* what) {
  write_text("FAILED: ");
  write_text(what);
  write_text("\n  reproduce: emulate ");
  write_text(std::strncmp(current_line, "norm=", 5) == 0 ? "--norm --problem \"" : "--problem \"");
  write_text(current_line);
  write_text("\"\n");
}

// A kernel went outside of all memory, or does not end: the program cannot go on.
void stop(int signal, siginfo_t* info, void*) {
  if (signal == SIGVTALRM) {
    report_failure("the case does not end");
  } else {
    const std::string what = "an access outside of what the operator may touch: " + emulator::place_of(info->si_addr);
    report_failure(what.c_str());
  }
  _exit(1);
}

// Not time on a clock: other programs may have the processor. 0: no limit.
void limit_processor_time(int seconds) {
  itimerval timer{};
  timer.it_value.tv_sec = seconds;
  setitimer(ITIMER_VIRTUAL, &timer, nullptr);
}

void catch_signals() {
  static unsigned char stack[1 << 16];
  stack_t alternative{};
  alternative.ss_sp = stack;
  alternative.ss_size = sizeof(stack);
  sigaltstack(&alternative, nullptr);
  struct sigaction action{};
  action.sa_sigaction = stop;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK;
  for (const int signal : {SIGSEGV, SIGBUS, SIGVTALRM}) sigaction(signal, &action, nullptr);
}

struct Options {
  uint64_t seed = 1;
  double seconds = 10;
  int64_t cases = -1;
  int64_t failures = 10;  // after so many it stops
  std::string problem;
  std::string problems;
  std::string plan = "best";
  int share = 0;
  int shares = 1;
  bool verbose = false;
  bool norm = false;  // group norms in place of convolutions
  Wanted wanted;
};

Options parse(int count, char** words) {
  Options options;
  for (int i = 1; i < count; ++i) {
    const std::string name = words[i];
    if (name == "--verbose" || name == "--norm") {
      (name == "--norm" ? options.norm : options.verbose) = true;
      continue;
    }
    if (i + 1 == count) throw std::invalid_argument(name + " needs a value\n" + kUsage);
    const std::string value = words[++i];
    if (name == "--seed") {
      options.seed = std::stoull(value);
    } else if (name == "--seconds") {
      options.seconds = std::stod(value);
    } else if (name == "--cases") {
      options.cases = std::stoll(value);
    } else if (name == "--failures") {
      options.failures = std::stoll(value);
    } else if (name == "--problem") {
      options.problem = value;
    } else if (name == "--problems") {
      options.problems = value;
    } else if (name == "--plan") {
      options.plan = value;
    } else if (name == "--share") {
      if (std::sscanf(value.c_str(), "%d/%d", &options.share, &options.shares) != 2 || options.shares < 1) {
        throw std::invalid_argument("--share is I/N");
      }
    } else if (name == "--operator") {
      options.wanted.op = parse_operator(value);
    } else if (name == "--type") {
      options.wanted.type = parse_type(value);
    } else if (name == "--engine") {
      options.wanted.engine = parse_engine(value);
    } else {
      throw std::invalid_argument("unknown option " + name + "\n" + kUsage);
    }
  }
  return options;
}

class Program {
 public:
  explicit Program(const Options& options) : options_(options) {}

  int operator()() {
    if (options_.norm) {
      run_norms();
    } else if (!options_.problem.empty()) {
      run_plans(parse_case(options_.problem));
    } else if (!options_.problems.empty()) {
      run_file();
    } else {
      run_drawn();
    }
    std::printf("%ld cases, %ld failed, %.0f s\n", static_cast<long>(cases_), static_cast<long>(failures_), elapsed());
    return failures_ == 0 && cases_ > 0 ? 0 : 1;
  }

 private:
  double elapsed() const { return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count(); }

  void run_case(const Case& item) {
    run_line(to_string(item), [&] { return run(item); });
  }

  void run_norm_case(const NormCase& item) {
    run_line(to_string(item), [&] { return run_norm(item); });
  }

  template <typename Call>
  void run_line(const std::string& line, Call&& call) {
    std::snprintf(current_line, sizeof(current_line), "%s", line.c_str());
    limit_processor_time(kMostSeconds);
    const Outcome outcome = [&] {
      try {
        return call();
      } catch (const std::exception& error) {
        throw std::runtime_error(std::string(error.what()) + "\n  problem: " + line);
      }
    }();
    limit_processor_time(0);
    ++cases_;
    if (options_.verbose) std::printf("%s\n  %s\n", current_line, outcome.plan.c_str());
    if (outcome.failure.empty()) return;
    ++failures_;
    std::fflush(stdout);
    report_failure(outcome.failure.c_str());
    if (!outcome.plan.empty()) std::printf("  plan: %s\n", outcome.plan.c_str());
    std::fflush(stdout);
  }

  // Of a problem that was given, by the plans that are asked for.
  void run_plans(Case item) {
    if (options_.wanted.engine) item.engine = *options_.wanted.engine;
    if (options_.plan == "all") {
      item.engine = Engine::kWgmma;
      const int count = static_cast<int>(candidates(item).size());
      for (item.plan = 0; item.plan < count; ++item.plan) run_case(item);
      return;
    }
    if (options_.plan != "best") {
      item.engine = Engine::kWgmma;
      item.plan = std::stoi(options_.plan);
    }
    run_case(item);
  }

  void run_file() {
    std::ifstream file(options_.problems);
    if (!file) throw std::invalid_argument("cannot read " + options_.problems);
    std::string line;
    for (int number = 0; std::getline(file, line); ++number) {
      if (line.empty() || line[0] == '#' || number % options_.shares != options_.share) continue;
      run_plans(parse_case(line));
    }
  }

  void run_norms() {
    if (!options_.problem.empty()) return run_norm_case(parse_norm_case(options_.problem));
    for (uint64_t seed = options_.seed << 32; may_go_on(); ++seed) run_norm_case(draw_norm_case(seed));
  }

  void run_drawn() {
    Draw draw(options_.seed, options_.wanted);
    while (may_go_on()) run_case(draw.next());
  }

  bool may_go_on() const {
    return elapsed() < options_.seconds && cases_ != options_.cases && failures_ < options_.failures;
  }

  const Options& options_;
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
  int64_t cases_ = 0;
  int64_t failures_ = 0;
};

}  // namespace
}  // namespace check

int main(int count, char** words) {
  check::catch_signals();
  try {
    const check::Options options = check::parse(count, words);
    return check::Program(options)();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 2;
  }
}
