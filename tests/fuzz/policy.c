/* Files of rules for runs (--policy). */
#include "fuzz.h"

#include "common/message.h"
#include "program/policy.h"

#include <math.h>
#include <string.h>

static void run(const uint8_t *data, size_t bytes) {
  policy p;
  const int status = policy_read(&p, fuzz_file(0, data, bytes));
  FUZZ_CHECK(status == STATUS_CONTINUE || status == STATUS_USAGE);
  FUZZ_CHECK(p.seed_count >= 0 && p.seed_count <= POLICY_MOST_SEEDS);
  for (int rule = 0; rule < POLICY_RULES && status == STATUS_CONTINUE; rule++)
    FUZZ_CHECK(isnan(p.limit[rule]) || p.limit[rule] > 0);
}

static void seeds(fuzz_take take) {
  static const char *const texts[] = {
      "{\"version\": 1, \"max_memory\": \"512MiB\", \"max_host_memory\": 4096, \"seeds\": [1, 2, "
      "3]}",
      "{\"version\": 1, \"max_lr\": 1e-3, \"min_batch\": 6, \"max_batch\": 6, \"max_clip\": 1}",
      "{\"version\": 1, \"max_gradient_norm\": 10, \"max_steps\": 3, \"max_minutes\": 0.5}",
      "{\"version\": 1, \"require_validation\": true, \"max_eval_every\": 2, \"$schema\": \"s\"}"};
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) take(texts[i], strlen(texts[i]));
}

const fuzz_format fuzz_policy = {"policy", run, seeds};
