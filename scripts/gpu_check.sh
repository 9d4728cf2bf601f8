#!/usr/bin/env bash
# One call that checks convt3d on a machine with a GPU: installs the wheel beside everything else, runs the GPU tests,
# compute-sanitizer over the tests marked `sanitizer`, random calls (scripts/fuzz.py), and the benchmark. Needs no network. `--help` lists the options.
# The stages are functions called by their names:
# shellcheck disable=SC2329
set -uo pipefail

usage() {
  cat <<'EOF'
usage: scripts/gpu_check.sh [--wheel FILE] [--out FOLDER] [--stages LIST] [--workers N] [--total SECONDS]
                            [--plans-of NAME] [--limit STAGE=SECONDS]... [--pytest ARGS] [--fuzz ARGS] [--benchmark ARGS]

  --wheel FILE      the wheel to check; default: $WHEEL, else the newest in dist/, else convt3d as PYTHON has it installed
  --out FOLDER      logs, record.json and summary.txt go here; default: $OUT, else gpu_check_out
  --stages LIST     comma-separated, run in this order; default: install,tests,sanitizer,fuzz,benchmark
                    (sanitizer: memcheck,racecheck,initcheck; without install: convt3d as PYTHON has it;
                    imposed: imposed_tests,imposed_fuzz, the same with the plans of another GPU)
  --workers N       test processes, with pytest-xdist; default: 0, all in one process
  --total SECONDS   time for everything (590); a stage never gets more than what is left of it
  --plans-of NAME   the other GPU, as its driver calls it; default: NVIDIA GeForce RTX 4090
  --limit STAGE=S   time for one stage: install=60 tests=300 memcheck=120 racecheck=120 initcheck=90 fuzz=60 benchmark=240;
                    imposed_tests and imposed_fuzz as tests and fuzz
  --pytest ARGS     more arguments for pytest in the stages tests and imposed_tests, split at spaces
  --fuzz ARGS       more arguments for scripts/fuzz.py, split at spaces; it takes its stage's time
  --benchmark ARGS  arguments for python -m convt3d.benchmark, split at spaces; default: --layer seed* --precision fp32

PYTHON (default python3) names the interpreter; it needs torch with CUDA, pytest and hypothesis.
Every stage is run even where an earlier one failed. Exit code: 0 when all passed, 1 when one failed, 2 for bad arguments.
EOF
}

repo=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
python=${PYTHON:-python3}
wheel=${WHEEL:-}
out=${OUT:-gpu_check_out}
stages=install,tests,sanitizer,fuzz,benchmark
workers=0
total=590
plans_of='NVIDIA GeForce RTX 4090'
pytest_args=()
fuzz_args=()
benchmark_args=(--layer 'seed*' --precision fp32)
declare -A limit=([install]=60 [tests]=300 [memcheck]=120 [racecheck]=120 [initcheck]=90 [fuzz]=60 [benchmark]=240
  [imposed_tests]=300 [imposed_fuzz]=60)

fail_usage() {
  printf 'gpu_check: %s\n' "$1" >&2
  usage >&2
  exit 2
}

while (($#)); do
  case $1 in
    -h | --help) usage && exit 0 ;;
    --*) (($# > 1)) || fail_usage "$1 is unknown or needs a value" ;;&
    --wheel) wheel=$2 ;;
    --out) out=$2 ;;
    --stages) stages=$2 ;;
    --workers) workers=$2 ;;
    --total) total=$2 ;;
    --plans-of) plans_of=$2 ;;
    --limit)
      [[ -v limit[${2%%=*}] && ${2#*=} =~ ^[0-9]+$ ]] || fail_usage "--limit must be STAGE=SECONDS with a known stage, got $2"
      limit[${2%%=*}]=${2#*=}
      ;;
    --pytest) read -ra pytest_args <<<"$2" ;;
    --fuzz) read -ra fuzz_args <<<"$2" ;;
    --benchmark) read -ra benchmark_args <<<"$2" ;;
    *) fail_usage "unknown argument $1" ;;
  esac
  shift 2
done
declare -A together=([sanitizer]="memcheck,racecheck,initcheck" [imposed]="imposed_tests,imposed_fuzz")
IFS=, read -ra named <<<"$stages"
stage_list=()
for stage in "${named[@]}"; do
  IFS=, read -ra parts <<<"${together[$stage]:-$stage}"
  stage_list+=("${parts[@]}")
done
for stage in "${stage_list[@]}"; do
  [[ -v limit[$stage] ]] || fail_usage "unknown stage $stage; known: install tests memcheck racecheck initcheck fuzz benchmark imposed_tests imposed_fuzz sanitizer imposed"
done

if [[ -z $wheel ]]; then
  wheel=$(find "$repo/dist" -name 'convt3d-*.whl' -printf '%T@ %p\n' 2>/dev/null | sort -n | tail -n 1 | cut -d' ' -f2-)
fi
[[ -z $wheel ]] || wheel=$(realpath "$wheel")
mkdir -p "$out" && out=$(realpath "$out") || exit 2

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
export PYTHONPATH="$scratch/site${PYTHONPATH:+:$PYTHONPATH}" PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1
export TORCHINDUCTOR_CACHE_DIR="$scratch/inductor" TRITON_CACHE_DIR="$scratch/triton"
export HYPOTHESIS_STORAGE_DIRECTORY="$scratch/hypothesis"
# Python never starts in the repository's root, where it would import the source folder and not the installed package.
cd "$repo/tests" || exit 2

# The stages: each a function whose commands run `within` its time.

within() { timeout --kill-after=10 "$seconds" "$@" </dev/null; }

install() {
  if [[ -n $wheel ]]; then
    within "$python" -m pip install --quiet --no-deps --no-index --no-compile --target "$scratch/site" "$wheel" || return
  else
    echo "no wheel in $repo/dist: checking convt3d as $python has it installed"
  fi
  within "$python" "$repo/scripts/first_call.py"
}

tests() {
  local -a pytest=("$python" -m pytest -p no:cacheprovider -ra --durations=10 "$@")
  if ((workers == 0)); then
    within "${pytest[@]}" -m cuda "${pytest_args[@]}"
  else
    local alone=0 rest=0 begin=$SECONDS
    within "${pytest[@]}" -m 'cuda and device_memory' "${pytest_args[@]}" || alone=$?
    ((alone != 5)) || alone=0  # the arguments chose none of these tests
    seconds=$((seconds - SECONDS + begin))
    ((seconds > 0)) || return 124
    within "${pytest[@]}" -m 'cuda and not device_memory' -n "$workers" "${pytest_args[@]}" || rest=$?
    return $((rest ? rest : alone))
  fi
}

imposed_tests() { tests --plans-of "$plans_of"; }

sanitize() {
  local tool=$1 sanitizer
  shift
  sanitizer=$(PATH="$PATH:${CUDA_HOME:-/usr/local/cuda}/bin:/usr/local/cuda/bin" type -P compute-sanitizer) ||
    { echo 'compute-sanitizer is neither on PATH nor in the CUDA toolkit' && return 1; }
  # With caching, a tensor is a part of a larger block, and an access past its end would go unseen.
  PYTORCH_NO_CUDA_MEMORY_CACHING=1 within "$sanitizer" --tool "$tool" --error-exitcode 99 --print-limit 20 "$@" \
    "$python" -m pytest -p no:cacheprovider -ra -m sanitizer
}

# torch asks the driver for things that may be absent; such answers are no errors of ours.
memcheck() { sanitize memcheck --report-api-errors no --kernel-name kns=convt3d; }
racecheck() { sanitize racecheck --kernel-name kns=convt3d; }
# Every kernel is watched here: what torch's kernels wrote would count as uninitialized otherwise. What the copy engine
# stores it does not see, on Hopper most outputs of float32 and 16 bits whose width is contiguous: they stay out.
initcheck() { PYTEST_ADDOPTS="${PYTEST_ADDOPTS:-} -k 'NDHWC or float64'" sanitize initcheck; }

# The last line of its log of calls is the one during which it ended, if it did not end by itself.
fuzz() {
  within "$python" "$repo/scripts/fuzz.py" --device cuda --seconds "$((seconds * 4 / 5))" --log "$out/${stage}_calls.txt" \
    "${fuzz_args[@]}" "$@"
}

imposed_fuzz() { fuzz --plans-of "$plans_of"; }

benchmark() {
  # Records of the same build and machine are completed, not replaced.
  [[ -f $out/record.json ]] || cp "$repo/benchmarks/results/h200.json" "$out/record.json" 2>/dev/null
  within "$python" -m convt3d.benchmark "${benchmark_args[@]}" --json "$out/record.json"
}

# The line of a stage's log that says most.
detail() {
  local line=''
  case $1 in
    tests | imposed_tests) line=$(grep -E '^=+ .* in [0-9.]+s' "$2" | tr -d '=') ;;
    memcheck | racecheck | initcheck) line=$(grep -E 'ERROR SUMMARY|RACECHECK SUMMARY' "$2" | tr -d '=') ;;
    benchmark) line=$(grep -cE '^(forward|backward_)' "$2" | sed '/^0$/d; s/$/ records/') ;;
  esac
  tail -n 1 <<<"${line:-$(tail -n 1 "$2")}"
}

failures=0
summary=()
for stage in "${stage_list[@]}"; do
  log=$out/$stage.log
  seconds=$((total - SECONDS < limit[$stage] ? total - SECONDS : limit[$stage]))
  begin=$SECONDS
  if ((seconds < 5)); then
    echo 'no time left for this stage' >"$log"
    result=skipped
  else
    printf '\n==== %s (at most %d s) ====\n' "$stage" "$seconds"
    "$stage" 2>&1 | tee "$log"
    case ${PIPESTATUS[0]} in
      0) result=ok ;;
      124 | 137) result='timed out' ;;
      *) result=FAILED ;;
    esac
    # Tests that were all skipped show nothing.
    case $stage in
      tests | imposed_tests | memcheck | racecheck | initcheck)
        [[ $result != ok ]] || grep -qE '^(=+ .*)?[1-9][0-9]* passed' "$log" || result=FAILED
        ;;
    esac
  fi
  [[ $result == ok ]] || failures=$((failures + 1))
  summary+=("$(printf '%-13s %-9s %4d s  %.120s' "$stage" "$result" "$((SECONDS - begin))" "$(detail "$stage" "$log")")")
done

{
  printf '\n==== summary: %d of %d stages failed, %d s ====\n' "$failures" "${#stage_list[@]}" "$SECONDS"
  printf '%s\n' "${summary[@]}"
} | tee "$out/summary.txt"
exit $((failures > 0))
