/* What exact batch norm costs, against micro-batches that are normalised by themselves, and against
 * the whole batch at once. */
#ifndef PROGRAM_PLAN_NORMS_H
#define PROGRAM_PLAN_NORMS_H

#include "program/setup.h"

enum { PRICED_NORMS = 3 };

typedef struct priced_norm {
  const char *name; /* what --batch-norm says */
  bool fits;
  int64_t micro_batch;
  uint64_t bytes;
  double seconds;
} priced_norm;

typedef struct norms_report {
  int64_t sections; /* 0: no batch norm is exact */
  priced_norm rows[PRICED_NORMS];
} norms_report;

/* Plans the other two as well. `change` as in setup_plan. */
int plan_norms_price(const setup *s, void (*change)(ac_plan_desc *desc), norms_report *report);
void plan_norms_print(const norms_report *report);
json_t *plan_norms_json(const norms_report *report);

#endif
