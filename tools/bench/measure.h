/* Fills a report with rows. The speed of shared machines drifts. So results of several devices are
 * taken one directly after the other, row by row; and a table of products or ops is gone through
 * several times, each row measured anew in other memory at each visit, so that its spread says what
 * another run of the bench may find. Rows are printed at the last visit, updates as they come. */
#ifndef TOOLS_BENCH_MEASURE_H
#define TOOLS_BENCH_MEASURE_H

#include "bench/models.h"
#include "bench/rows.h"

#include <signal.h>

typedef struct bench_wish {
  ac_bench_desc desc;       /* of products and ops */
  ac_bench_desc step_desc;  /* of updates */
  const char *filter;       /* only rows with it in "name precision detail"; NULL: all */
  const bench_model *model; /* NULL: by the table */
  bench_setting setting;
  int visits;           /* of products and ops, which share the time of a row */
  int64_t size;         /* of products; 0: several */
  bool every_precision; /* products in all precisions of a device, not only the setting's */
  bool count_only;      /* rows are added, and nothing is measured or printed */
  /* The signal that came; 0: none. After one nothing more is measured, and the results so far are
   * printed. NULL: nobody watches for signals. */
  const volatile sig_atomic_t *signal;
} bench_wish;

/* Each returns a status of message.h. */
int bench_measure_roofs(bench_report *report, const bench_wish *wish);
/* At the end: measures the copies again, unless rows have hardly any time. Says which roofs have
 * changed meanwhile. */
int bench_check_roofs(bench_report *report, const bench_wish *wish);
int bench_measure_gemm(bench_report *report, const bench_wish *wish);
int bench_measure_ops(bench_report *report, const bench_wish *wish);
int bench_measure_steps(bench_report *report, const bench_wish *wish);

/* Whether bench_measure_steps measures that model, if the filter lets it. */
bool bench_has_step(const bench_wish *wish, const bench_model *model);

#endif
