/* --policy FILE: limits that a team sets for its runs and keeps with its code. The file is a JSON
 * object of rules; docs/reference/files.md lists them. A run outside is refused before it begins,
 * or ends with the rule's name. */
#ifndef TOOLS_PROGRAM_POLICY_H
#define TOOLS_PROGRAM_POLICY_H

#include "program/model_kind.h"

typedef enum policy_rule {
  POLICY_MAX_MEMORY,
  POLICY_MAX_HOST_MEMORY,
  POLICY_MAX_LR,
  POLICY_MIN_BATCH,
  POLICY_MAX_BATCH,
  POLICY_MAX_CLIP,
  POLICY_MAX_GRADIENT_NORM,
  POLICY_MAX_STEPS,
  POLICY_MAX_MINUTES,
  POLICY_REQUIRE_VALIDATION,
  POLICY_MAX_EVAL_EVERY,
  POLICY_SEEDS,
  POLICY_RULES
} policy_rule;

enum { POLICY_MOST_SEEDS = 64 };

typedef struct policy {
  const char *path;           /* NULL: there is none */
  double limit[POLICY_RULES]; /* NAN: the file does not set it; 1: it is required */
  double seed[POLICY_MOST_SEEDS];
  int seed_count;
} policy;

/* All return a status of message.h. If a file is not a policy, the message says what is wrong. */
int policy_read(policy *p, const char *path);

/* Its name in files; tools/package/policy.schema.json has the same rules. */
const char *policy_rule_name(policy_rule rule);

/* The rules for any training, long or short. */
int policy_check_batch(const policy *p, const train_flags *flags);
/* And the rules for a whole run of so many updates. `trainer` has its groups. */
int policy_check_run(const policy *p, const train_flags *flags, const ac_trainer_desc *trainer,
                     int64_t steps);
int policy_check_memory(const policy *p, const ac_plan_info *plan);
/* The rules for a window that ended `seconds` after the run began, pauses included. */
int policy_check_step(const policy *p, const ac_fit_event *event, const ac_trainer_desc *trainer,
                      double seconds);

#endif
